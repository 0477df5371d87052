"""Open-ended requests of a file: three formats, and every error with its place."""

import json

import pytest

from pipeline.core.prompts.open_ended import open_prompts
from pipeline.errors import ArtifactError, ConfigError
from pipeline.sources.open_prompts import read_open_prompts

TEXTS = [
    "Think of a random word. Output ONLY the answer.",
    "Pick a random fairy-tale hero. Output ONLY the answer.",
]


def write(path, text):
    path.write_text(text)
    return str(path)


def test_the_formats_give_the_same_prompts(tmp_path):
    sources = [
        write(tmp_path / "a.txt", "\n\n".join(TEXTS) + "\n"),
        write(tmp_path / "a.json", json.dumps(TEXTS)),
        write(tmp_path / "a.jsonl", "".join(json.dumps({"prompt": text}) + "\n" for text in TEXTS)),
    ]
    found = [read_open_prompts(source) for source in sources]
    assert found[0] == found[1] == found[2]
    assert [prompt.text for prompt in found[0]] == TEXTS
    assert [prompt.category for prompt in found[0]] == ["word", "fairy-tale hero"]
    assert {prompt.split for prompt in found[0]} == {"open"}
    assert found[0][1].prompt_id.startswith("open-fairy-tale-hero-")


def test_our_own_list_comes_back_from_a_file_with_its_ids(tmp_path):
    text = "".join(f"{prompt.text}\n" for prompt in open_prompts())
    assert read_open_prompts(write(tmp_path / "own.txt", text)) == open_prompts() == read_open_prompts(None)


def test_texts_beyond_the_template_and_categories_of_a_file(tmp_path):
    rows = [{"prompt": "Say anything."}, {"prompt": "Name a river.", "category": "Rivers / of the World"}]
    path = write(tmp_path / "rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    first, second = read_open_prompts(path)
    assert (first.category, second.category) == ("", "Rivers / of the World")
    assert second.prompt_id.startswith("open-rivers-of-the-world-") and "/" not in second.prompt_id


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "x", r"prompts.open.source: .*a.csv must end in .txt, .jsonl, .json"),
        ("a.txt", "\n \n", "a.txt has no prompts"),
        ("a.txt", "Name it.\nName it. \n", "line 2: the prompt 'Name it.' is there twice"),
        ("a.json", "{}", "a.json must hold one list of texts"),
        ("a.json", "[1]", "prompt 1: a prompt must be a text, got 1"),
        ("a.json", "[", "a.json is not JSON"),
        ("a.jsonl", '{"text": "x"}', "line 1 has no field 'prompt'"),
        ("a.jsonl", '{"prompt": " "}', "prompt 1: a prompt must be a text, got ' '"),
        ("a.jsonl", '{"prompt": "x", "category": 3}', "prompt 1: the category must be a text, got 3"),
    ],
)
def test_bad_files_are_named(tmp_path, name, text, message):
    with pytest.raises((ArtifactError, ConfigError), match=message):
        read_open_prompts(write(tmp_path / name, text))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ArtifactError, match=r"prompts.open.source: .*none.txt does not exist"):
        read_open_prompts(str(tmp_path / "none.txt"))
