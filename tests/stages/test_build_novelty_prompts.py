"""Prompts of NoveltyBench from files, directories and a data set in the hub's format."""

import json
from types import SimpleNamespace

import pandas as pd
import pytest
import yaml
from huggingface_hub import HfApi
from huggingface_hub.errors import OfflineModeIsEnabled

from pipeline.artifacts.prompts import read_text_prompts
from pipeline.artifacts.storage import read_json
from pipeline.config.prompts import NoveltyPromptsConfig
from pipeline.core.prompts.text import TextPrompt
from pipeline.errors import ArtifactError, ConfigError
from pipeline.sources.prompt_sets import NOVELTY, read_novelty_prompts, source_revision
from tests.conftest import ROOT
from tests.stages.conftest import run_stage

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


@pytest.fixture
def build(tiny_params, tmp_path):
    def run(source, **changes):
        values = yaml.safe_load(tiny_params.read_text())
        values["prompts"]["novelty"] |= {"source": str(source), "revision": None, "splits": ["curated", "wildchat"]}
        values["prompts"]["novelty"] |= {"max_prompts_per_split": None} | changes
        params, output = tmp_path / "params.yaml", tmp_path / "prompts" / "novelty.parquet"
        params.write_text(yaml.safe_dump(values))
        run_stage(params, "build-prompts-novelty@novelty", output=output)
        return read_text_prompts(output)

    return run


def ids(prompts):
    return [prompt.prompt_id for prompt in prompts]


def test_a_file(build, tmp_path):
    source = write(tmp_path / "prompts.jsonl", ROWS)
    assert build(source) == [
        TextPrompt("curated.c-0", "curated", "Creativity", "Tell a story."),
        TextPrompt("curated.c-1", "curated", "", "Name a café\u2028 or two."),
        TextPrompt("wildchat.c-0", "wildchat", "", "Hi"),
    ]
    provenance = read_json(tmp_path / "prompts" / "novelty.provenance.json")
    assert provenance["num_prompts"] == 3 and provenance["found"] == {"revision": None}
    assert list(provenance["inputs_sha256"]) == [str(source)]
    limited = build(source, splits=["wildchat", "curated"], max_prompts_per_split=1)
    assert ids(limited) == ["wildchat.c-0", "curated.c-0"]


def rows_of(split):
    return [{k: v for k, v in row.items() if k != "split"} for row in ROWS if row["split"] == split]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([*ROWS, {"id": "x", "split": "curated"}], "line 4 has no field 'prompt'"),
        ([*ROWS, ROWS[0]], "prompt 3: .*id curated.c-0. is there twice"),
        ([ROWS[2], {**ROWS[0], "prompt": " "}], "split 'curated', prompt 1: the field 'prompt' must be a text"),
        ([ROWS[2], {**ROWS[0], "id": "a/b"}], "the id must be letters"),
    ],
)
def test_unusable_rows(build, tmp_path, rows, message):
    with pytest.raises(ArtifactError, match=message):
        build(write(tmp_path / "prompts.jsonl", rows))


def test_unusable_sources(build, tmp_path):
    source = write(tmp_path / "prompts.jsonl", ROWS)
    with pytest.raises(ConfigError, match="has no split 'wild'; it has curated, wildchat"):
        build(source, splits=["wild"])
    with pytest.raises(ArtifactError, match=r"prompts.novelty.source: .*nowhere.jsonl does not exist"):
        build(tmp_path / "nowhere.jsonl")
    source.write_text("")
    with pytest.raises(ConfigError, match="has no split 'curated'"):
        build(source)


@pytest.fixture
def hub_data(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    directory = tmp_path / "novelty-bench"
    (directory / "data").mkdir(parents=True)
    lines = ["---", "configs:", "- config_name: default", "  data_files:"]
    for split in ("curated", "wildchat"):
        pd.DataFrame(rows_of(split)).to_parquet(directory / "data" / f"{split}-00000-of-00001.parquet")
        lines += [f"  - split: {split}", f"    path: data/{split}-*"]
    (directory / "README.md").write_text("\n".join([*lines, "---", ""]))
    return directory


def test_a_data_set_in_the_hubs_format(build, hub_data):
    pytest.importorskip("datasets")
    prompts = build(hub_data)
    assert ids(prompts) == ["curated.c-0", "curated.c-1", "wildchat.c-0"]
    assert [p.category for p in prompts] == ["Creativity", "", ""]
    with pytest.raises(ConfigError, match="has no split 'wild'; it has curated, wildchat"):
        build(hub_data, splits=["curated", "wild"])
    # Changed files are noticed.
    for split in ("curated", "wildchat"):
        path = hub_data / "data" / f"{split}-00000-of-00001.parquet"
        pd.read_parquet(path).rename(columns={"prompt": "text"}).to_parquet(path)
    with pytest.raises(ArtifactError, match="split 'curated' has no field 'prompt'; it has id, category, text"):
        build(hub_data)
    path.write_bytes(b"nonsense")
    with pytest.raises(ArtifactError, match="cannot read the data set"):
        build(hub_data)


def test_the_hub_is_asked_for_a_commit(monkeypatch):
    def info(self, name, revision):
        if revision == "offline":
            raise OfflineModeIsEnabled("no network")
        return SimpleNamespace(sha=COMMIT)

    monkeypatch.setattr(HfApi, "dataset_info", info)
    assert source_revision(NOVELTY, "owner/name", None) == source_revision(NOVELTY, "owner/name", "main") == COMMIT
    monkeypatch.setattr(HfApi, "dataset_info", None)
    assert source_revision(NOVELTY, "owner/name", COMMIT) == COMMIT
    monkeypatch.setattr(HfApi, "dataset_info", info)
    with pytest.raises(ArtifactError, match="cannot reach the hub for the data set owner/name: no network"):
        source_revision(NOVELTY, "owner/name", "offline")


def test_the_projects_own_prompts():
    source = str(ROOT / "data" / "novelty_prompts.jsonl")
    config = NoveltyPromptsConfig(source, None, ["curated", "wildchat"], None)
    prompts = read_novelty_prompts(config, None)
    curated = [prompt for prompt in prompts if prompt.split == "curated"]
    assert len(curated) == 20 and len(prompts) == 30 and len({prompt.text for prompt in prompts}) == 30
    assert len({prompt.category for prompt in curated}) == 6 and all(prompt.category for prompt in curated)
