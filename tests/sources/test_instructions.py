"""General instructions: reading them, and what those of the project are and are not."""

import gzip
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
from pipeline.core.prompts.text import HELD_OUT
from pipeline.errors import ArtifactError, ConfigError
from pipeline.sources.instructions import read_instructions
from tests.conftest import ROOT

OWN = ROOT / "data" / "instructions.jsonl"
KINDS = {"question", "arithmetic", "list", "rewriting", "code", "multiple_choice", "prose", "near_miss"}
ROWS = [{"prompt": f"Say {number}.", "id": f"say-{number}", "kind": "prose"} for number in range(4)]


def config_of(source, split=None, max_prompts=None, held_out_share=0.25):
    return InstructionsConfig(str(source), None, split, max_prompts, held_out_share)


def read(source, seed=0, **settings):
    return read_instructions(config_of(source, **settings), None, seed)


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_file_in_its_order(tmp_path):
    found = read(write(tmp_path / "a.jsonl", ROWS))
    assert [(p.prompt_id, p.category, p.text) for p in found] == [(r["id"], r["kind"], r["prompt"]) for r in ROWS]
    assert Counter(p.split for p in found) == {"anchor": 3, "held_out": 1}
    assert [p.text for p in read(write(tmp_path / "a.jsonl", ROWS), max_prompts=2)] == ["Say 0.", "Say 1."]


def test_ids_and_kinds_may_be_unknown(tmp_path):
    rows = [{"prompt": "Say one."}, {"prompt": "Say two. ", "kind": None, "id": None}]
    found = read(write(tmp_path / "a.jsonl", rows))
    assert [(p.category, p.text) for p in found] == [("", "Say one."), ("", "Say two.")]
    assert len({p.prompt_id for p in found}) == 2
    # An id is the text's own, whatever stands around it.
    assert {p.prompt_id for p in read(write(tmp_path / "a.jsonl", rows[::-1]))} == {p.prompt_id for p in found}


def test_a_data_set_with_splits(tmp_path):
    write(tmp_path / "train.jsonl", ROWS)
    write(tmp_path / "extra.jsonl", [{"prompt": "Go on."}, {"prompt": "Stop."}])
    assert [p.text for p in read(tmp_path, split="extra")] == ["Go on.", "Stop."]
    with pytest.raises(ConfigError, match="prompts.instructions.split: .* has no split 'test'; it has extra, train"):
        read(tmp_path, split="test")
    with pytest.raises(ConfigError, match="prompts.instructions.split: must name a split of the data set"):
        read(tmp_path)
    with pytest.raises(ConfigError, match="prompts.instructions.split: .*train.jsonl is a file, which has no splits"):
        read(tmp_path / "train.jsonl", split="train")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "a.jsonl has no prompts"),
        ([*ROWS, {"text": "x"}], "line 5 has no field 'prompt'"),
        ([*ROWS, {"prompt": " "}], "prompt 5: the field 'prompt' must be a text, got ' '"),
        ([*ROWS, {"prompt": 7}], "prompt 5: the field 'prompt' must be a text, got 7"),
        ([*ROWS, {"prompt": "say  1. "}], "prompt 5: the prompt 'say  1.' is there twice"),
        ([*ROWS, {"prompt": "x", "id": "say-1"}], "prompt 5: the id 'say-1' is there twice"),
        ([*ROWS, {"prompt": "x", "id": "a/b"}], "prompt 5: the id must be letters"),
        ([*ROWS, {"prompt": "x", "kind": 3}], "prompt 5: the field 'kind' must be a text, got 3"),
    ],
)
def test_unusable_rows_are_named(tmp_path, rows, message):
    with pytest.raises(ArtifactError, match=message):
        read(write(tmp_path / "a.jsonl", rows))


def test_something_must_be_held_out(tmp_path):
    rows = [{"prompt": f"Say {kind}.", "kind": kind} for kind in "abc"]
    with pytest.raises(ConfigError, match="prompts.instructions: no kind has two instructions"):
        read(write(tmp_path / "a.jsonl", rows))


# What follows is about the instructions that the project ships.


@pytest.fixture(scope="module")
def own():
    return read(OWN)


def normalised(text):
    return " ".join(re.findall(r"\w+", text.lower()))


def test_kinds_have_about_equal_shares(own):
    sizes = Counter(prompt.category for prompt in own)
    assert sizes.keys() == KINDS and max(sizes.values()) <= 1.2 * min(sizes.values())
    # Any first part of the file has all of them, so that few prompts are enough for a trial.
    assert {prompt.category for prompt in own[:8]} == KINDS
    held_out = Counter(prompt.category for prompt in own if prompt.split == HELD_OUT)
    assert all(held_out[kind] == round(0.25 * size) for kind, size in sizes.items())


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
    assert normalised("What is the capital of Canada?") in questions and len(questions) > 150
    # An instruction may have options behind its question, too.
    stems = {normalised(part) for prompt in own for part in (prompt.text, prompt.text.split("\nA")[0])}
    assert not questions & stems
    documents = [
        f" {normalised(json.loads(line)['text'])} "
        for path in (ROOT / "data" / "paloma").rglob("*.jsonl.gz")
        for line in gzip.decompress(path.read_bytes()).splitlines()
    ]
    assert len(documents) > 200
    joined = "\n".join(documents)
    assert not [prompt.text for prompt in own if f" {normalised(prompt.text)} " in joined]


DRAWS = re.compile(
    r"\b(pick|choose|draw|select|sample|generate|guess|simulate|shuffle|flip|toss|throw|roll|spin)\b"
    r"|\brandom(ly)?\b(?! (variables?|walk)\b)|\bany (number|word|letter|name)\b"
)


def test_none_asks_for_a_draw(own):
    assert DRAWS.search("pick a random word") and DRAWS.search("give me a random number")
    assert not [prompt.text for prompt in own if DRAWS.search(prompt.text.lower())]
    assert {p.category for p in own if "random" in p.text.lower()} == {"near_miss"}
