"""The stage that writes the general instructions: artifact, record, and what is wrong in one sentence."""

import json

import pandas as pd
import pytest
import yaml

from pipeline.artifacts.prompts import read_text_prompts
from pipeline.artifacts.storage import read_json
from pipeline.errors import ArtifactError
from tests.command_line import run_command_line
from tests.stages.conftest import run_stage


@pytest.fixture
def write_params(tiny_params, tmp_path):
    def write(seed=0, **changes):
        values = yaml.safe_load(tiny_params.read_text())
        values["seed"] = seed
        values["prompts"]["instructions"] |= changes
        params = tmp_path / "params.yaml"
        params.write_text(yaml.safe_dump(values))
        return params

    return write


@pytest.fixture
def build(write_params, tmp_path):
    def run(**changes):
        output, held_out = (tmp_path / "prompts" / f"{name}.parquet" for name in ("instructions", "anchors"))
        run_stage(write_params(**changes), "build-prompts-instructions", output=output, held_out=held_out)
        prompts = read_text_prompts(output), read_text_prompts(held_out)
        assert [{prompt.split for prompt in each} for each in prompts] == [{"anchor"}, {"held_out"}]
        return [prompt for each in prompts for prompt in each]

    return run


def test_instructions_and_their_record(build, tmp_path):
    prompts = build()
    # Two of each kind, one of which is held out.
    assert len(prompts) == 16
    for kind in {prompt.category for prompt in prompts}:
        assert sorted(prompt.split for prompt in prompts if prompt.category == kind) == ["anchor", "held_out"]
    record = read_json(tmp_path / "prompts" / "instructions.provenance.json")
    assert record["found"] == {"revision": None}
    assert record["parameters"]["prompts.instructions"]["held_out_share"] == 0.25 and record["parameters"]["seed"] == 0
    assert list(record["inputs_sha256"]) == ["data/instructions.jsonl"]


def test_the_seed_decides_which_are_held_out(build):
    found = {seed: build(seed=seed) for seed in (0, 1)}
    assert found[0] != found[1] and found[0] == build(seed=0)


def test_a_data_set_in_the_hubs_format(build, tmp_path, monkeypatch):
    pytest.importorskip("datasets")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    data = tmp_path / "instructions" / "data"
    data.mkdir(parents=True)
    rows = pd.DataFrame({"prompt": ["Say one.", "Say two.", "Say three."], "length": [1, 2, 3]})
    rows.to_parquet(data / "train-00000-of-00001.parquet")
    found = build(source=str(data.parent), split="train", max_prompts=None)
    assert {prompt.text for prompt in found} == set(rows["prompt"])
    assert sum(prompt.split == "held_out" for prompt in found) == 1
    rows.rename(columns={"prompt": "text"}).to_parquet(data / "train-00000-of-00001.parquet")
    with pytest.raises(ArtifactError, match="split 'train' has no field 'prompt'; it has text, length"):
        build(source=str(data.parent), split="train")


def test_the_command_line_says_what_is_wrong(write_params, tmp_path, monkeypatch, capsys):
    output, nowhere = tmp_path / "instructions.parquet", tmp_path / "nowhere.jsonl"
    twice = tmp_path / "twice.jsonl"
    twice.write_text((json.dumps({"prompt": "Say one."}) + "\n") * 2)
    for source, message in (
        (nowhere, f"error: prompts.instructions.source: {nowhere} does not exist\n"),
        (twice, f"error: {twice}: prompt 2: the prompt 'Say one.' is there twice\n"),
    ):
        params = write_params(source=str(source))
        with pytest.raises(SystemExit) as ended:
            run_command_line(monkeypatch, "pipeline.stages.build_instructions", "--params", params, "--output", output)
        assert ended.value.code == 1 and capsys.readouterr().err == message
        assert not output.exists()
