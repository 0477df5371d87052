"""General instructions and open-ended requests: reading them, and what those of the project are and are not."""

import json
import re
from collections import Counter

import pytest

from pipeline.artifacts.json_lines import read_json_lines
from pipeline.config.prompts import InstructionsConfig
from pipeline.core.laws.families import FAMILIES
from pipeline.core.prompts.multiple_choice import mcq_prompts
from pipeline.core.prompts.open_ended import open_prompts
from pipeline.core.prompts.structured import build_split
from pipeline.errors import ArtifactError, ConfigError
from pipeline.sources.prompt_sets import read_instructions, read_open_prompts
from tests.conftest import ROOT

OWN = ROOT / "data" / "instructions.jsonl"
ROWS = [{"prompt": f"Say {number}.", "id": f"say-{number}", "kind": "prose"} for number in range(4)]


def read(source, seed=0, split=None, max_prompts=None, held_out_share=0.25):
    return read_instructions(InstructionsConfig(str(source), None, split, max_prompts, held_out_share), None, seed)


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_file_in_its_order(tmp_path):
    found = read(lines(tmp_path / "a.jsonl", ROWS))
    assert [(p.prompt_id, p.category, p.text) for p in found] == [(r["id"], r["kind"], r["prompt"]) for r in ROWS]
    assert Counter(p.split for p in found) == {"anchor": 3, "held_out": 1}
    assert [p.text for p in read(tmp_path / "a.jsonl", max_prompts=2)] == ["Say 0.", "Say 1."]


def test_ids_and_kinds_may_be_unknown(tmp_path):
    rows = [{"prompt": "Say one."}, {"prompt": "Say two. ", "kind": None, "id": None}]
    found = read(lines(tmp_path / "a.jsonl", rows))
    assert {(p.category, p.text) for p in found} == {("", "Say one."), ("", "Say two.")}
    # An id is the text's own, whatever stands around it.
    assert read(lines(tmp_path / "a.jsonl", rows[::-1]))[::-1] == found


def test_splits_of_a_file(tmp_path):
    splits = {"Go on.": "extra", "Stop.": "extra", "No": "x"}
    path = lines(tmp_path / "a.jsonl", [{"prompt": text, "split": split} for text, split in splits.items()])
    assert [p.text for p in read(path, split="extra")] == ["Go on.", "Stop."]
    with pytest.raises(ConfigError, match="prompts.instructions.split: .* has no split 'test'; it has extra, x"):
        read(path, split="test")
    with pytest.raises(ConfigError, match="prompts.instructions.split: must name a split of the data set"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "a.jsonl has no prompts"),
        ([*ROWS, {"text": "x"}], "line 5 has no field 'prompt'"),
        ([*ROWS, {"prompt": " "}], "prompt 5: the field 'prompt' must be a text, got ' '"),
        ([*ROWS, {"prompt": "say  1. "}], "prompt 5: the prompt 'say  1.' is there twice"),
        ([*ROWS, {"prompt": "x", "id": "say-1"}], r"prompt 5: .*\(id say-1\) is there twice"),
        ([*ROWS, {"prompt": "x", "id": "a/b"}], "prompt 5: the id must be letters"),
        ([{"prompt": f"Say {k}.", "kind": k} for k in "abc"], "prompts.instructions: no kind has two instructions"),
    ],
)
def test_unusable_rows_are_named(tmp_path, rows, message):
    with pytest.raises((ArtifactError, ConfigError), match=message):
        read(lines(tmp_path / "a.jsonl", rows))


TEXTS = ["Think of a random word. Output ONLY the answer.", "Pick a random fairy-tale hero. Output ONLY the answer."]


def write(path, text):
    path.write_text(text)
    return str(path)


def test_the_formats_give_the_same_requests(tmp_path):
    sources = [
        write(tmp_path / "a.json", json.dumps(TEXTS)),
        write(tmp_path / "a.jsonl", "".join(json.dumps({"prompt": text}) + "\n" for text in TEXTS)),
    ]
    found = [read_open_prompts(source) for source in sources]
    assert found[0] == found[1]
    assert [(p.text, p.category, p.split) for p in found[0]] == [
        (text, category, "open") for text, category in zip(TEXTS, ("word", "fairy-tale hero"), strict=True)
    ]
    assert found[0][1].prompt_id.startswith("open-fairy-tale-hero-")
    own = write(tmp_path / "own.json", json.dumps([prompt.text for prompt in open_prompts()]))
    assert read_open_prompts(own) == open_prompts() == read_open_prompts(None)
    rows = [{"prompt": "Say anything."}, {"prompt": "Name a river.", "category": "Rivers / of the World"}]
    first, second = read_open_prompts(str(lines(tmp_path / "rows.jsonl", rows)))
    assert (first.category, second.category) == ("", "Rivers / of the World")
    assert second.prompt_id.startswith("open-rivers-of-the-world-") and "/" not in second.prompt_id


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "x", r"prompts.open.source: .*a.csv must end in .jsonl or .json"),
        ("a.json", None, r"prompts.open.source: .*a.json does not exist"),
        ("a.json", '["Name it.", "Name it. "]', "prompt 2: the prompt 'Name it.' .* is there twice"),
        ("a.json", "{}", "a.json must hold one list of texts"),
        ("a.json", "[", "a.json is not JSON"),
        ("a.jsonl", '{"prompt": "x", "category": 3}', "prompt 1: the field 'category' must be a text, got 3"),
    ],
)
def test_bad_files_are_named(tmp_path, name, text, message):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises((ArtifactError, ConfigError), match=message):
        read_open_prompts(str(tmp_path / name))


# What follows is about the instructions that the project ships.


@pytest.fixture(scope="module")
def own():
    return read(OWN)


def normalised(text):
    return " ".join(re.findall(r"\w+", text.lower()))


def evaluation_texts():
    for split in ("train", "unseen", "ood"):
        yield from (prompt.text for prompt in build_split(split, selection="full", families=list(FAMILIES)))
    yield from (prompt.text for prompt in (*open_prompts(), *mcq_prompts()))
    yield from (row["prompt"] for row in read_json_lines(ROOT / "data" / "novelty_prompts.jsonl", ("prompt",)))


def retention_questions():
    """What the items of the tiny tasks ask, few-shot examples too."""
    for path in (ROOT / "data" / "retention").rglob("*.jsonl"):
        for row in read_json_lines(path, ()):
            yield from (row[name] for name in ("question", "ctx", "sentence") if name in row)
            # Prompts with their examples: one question each, with its options behind it.
            for block in row.get("input_formatted", "").split("\n\n"):
                yield block.split("\nA. ")[0]


def test_no_instruction_is_part_of_an_evaluation(own):
    texts = {normalised(text) for text in evaluation_texts()}
    # The whole grids (2,671, fewer without signs), 102 open-ended requests, a multiple-choice one, and NoveltyBench's.
    assert len(texts) > 2600
    assert not texts.intersection(normalised(prompt.text) for prompt in own)
    questions = {normalised(text) for text in retention_questions()}
    # An instruction may have options behind its question, too.
    stems = {normalised(part) for prompt in own for part in (prompt.text, prompt.text.split("\nA")[0])}
    assert len(questions) > 150 and not questions & stems
