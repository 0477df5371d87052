"""Prompts of NoveltyBench from files, directories and a data set in the hub's format."""

import json
from unittest.mock import Mock

import pandas as pd
import pytest

from pipeline.config.prompts import NoveltyPromptsConfig
from pipeline.core.prompts.text import TextPrompt
from pipeline.errors import ArtifactError
from pipeline.sources.prompt_sets import NOVELTY, read_novelty_prompts, recorded_revision

COMMIT = "0123456789abcdef0123456789abcdef01234567"
ROWS = [
    {"id": "c-0", "split": "curated", "category": "Creativity", "prompt": "Tell a story."},
    {"id": "c-1", "split": "curated", "category": None, "prompt": "Name a café\u2028 or two."},
    {"id": "c-0", "split": "wildchat", "prompt": "Hi"},
]


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def read(source, splits=("curated", "wildchat"), most=None):
    config = NoveltyPromptsConfig(str(source), None, list(splits), most)
    return read_novelty_prompts(config, recorded_revision(Mock(), NOVELTY, config))


def ids(prompts):
    return [prompt.prompt_id for prompt in prompts]


def rows_of(split):
    return [{k: v for k, v in row.items() if k != "split"} for row in ROWS if row["split"] == split]


def test_a_file(tmp_path):
    source = write(tmp_path / "prompts.jsonl", ROWS)
    assert read(source) == [
        TextPrompt("curated.c-0", "curated", "Creativity", "Tell a story."),
        TextPrompt("curated.c-1", "curated", "", "Name a café\u2028 or two."),
        TextPrompt("wildchat.c-0", "wildchat", "", "Hi"),
    ]
    assert ids(read(source, ["wildchat", "curated"], most=1)) == ["wildchat.c-0", "curated.c-0"]


def test_a_source_that_is_not_there(tmp_path):
    assert recorded_revision(Mock(), NOVELTY, NoveltyPromptsConfig("owner/name", COMMIT, ["curated"], None)) == COMMIT
    with pytest.raises(ArtifactError, match=r"prompts.novelty.source: .*nowhere.jsonl does not exist"):
        read(tmp_path / "nowhere.jsonl")


def test_a_data_set_in_the_hubs_format(tmp_path, monkeypatch):
    pytest.importorskip("datasets")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    directory = tmp_path / "novelty-bench"
    (directory / "data").mkdir(parents=True)
    lines = ["---", "configs:", "- config_name: default", "  data_files:"]
    for split in ("curated", "wildchat"):
        pd.DataFrame(rows_of(split)).to_parquet(directory / "data" / f"{split}-00000-of-00001.parquet")
        lines += [f"  - split: {split}", f"    path: data/{split}-*"]
    (directory / "README.md").write_text("\n".join([*lines, "---", ""]))
    prompts = read(directory)
    assert ids(prompts) == ["curated.c-0", "curated.c-1", "wildchat.c-0"]
    assert [prompt.category for prompt in prompts] == ["Creativity", "", ""]
    # Changed files are noticed.
    for path in (directory / "data").iterdir():
        pd.read_parquet(path).rename(columns={"prompt": "text"}).to_parquet(path)
    with pytest.raises(ArtifactError, match="split 'curated' has no field 'prompt'; it has id, category, text"):
        read(directory)
