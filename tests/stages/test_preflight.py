"""The preflight stage: what it writes, and that downstream stages see no change when it runs again."""

import json

import pytest

from pipeline.artifacts.model_report import checkpoint_identity
from pipeline.compose import compose_params, render
from pipeline.errors import ModelError
from tests.conftest import ROOT, TINY_OVERRIDES
from tests.stages.conftest import run_stage

# Of Qwen3 in tests/stages/dvc/test_paper_experiment.py. That it says the same again is in tests/stages/test_kill.py.
MODELS = {"gemma3_4b": "gemma3", "gpt_oss_20b": "gpt_oss"}
CHECKS = ["turn_end", "adapter", "laws"]


def write_params(path, artifacts, stand_ins, *extra):
    overrides = [
        "experiment=paper",
        *TINY_OVERRIDES,
        f"artifacts={artifacts}",
        "require_pinned_revisions=false",
        *(f"models.{name}.checkpoint={stand_ins[stand_in]}" for name, stand_in in MODELS.items()),
        *(f"models.{name}.dtype=float32" for name in MODELS),
        *extra,
    ]
    path.write_text(render(compose_params(ROOT / "conf", overrides), overrides))
    return path


@pytest.fixture(scope="module")
def project(stand_ins, tmp_path_factory):
    root = tmp_path_factory.mktemp("preflight")
    params = write_params(root / "params.yaml", root, stand_ins)
    run_stage(params, "build-prompts-structured")
    for name in MODELS:
        run_stage(params, f"check-model@{name}")
    return root


@pytest.mark.parametrize("name", MODELS)
def test_what_is_written(project, name, capsys):
    path = run_stage(project / "params.yaml", f"preflight@{name}").paths["output"]
    found = json.loads(path.read_text())
    assert len(weights := found.pop("checkpoint_sha256")) == 64
    # Nothing of the engine: another one must not train adapters again.
    assert found == {"model": name, "passed": CHECKS}
    details = json.loads(path.with_suffix(".details.json").read_text())
    printed = capsys.readouterr().out
    # Structured requests and open-ended ones, and what the checks of their answers can see.
    assert [name.split("-")[0] == "open" for name in details["laws"]["p_values"]] == [False, False, True, True]
    assert details["laws"]["p_value"] > details["laws"]["significance"]
    assert f"top_p 0.95 {details['power']['top_p 0.95']:.3f}" in printed
    assert details["power"]["temperature 0.8"] > 0.9
    # With a stand-in's nearly flat law a nucleus is hard to see, and the preflight says so.
    assert ("warning" in printed) == (details["warning"] is not None) == (min(details["power"].values()) < 0.9)
    report = json.loads((project / "models" / f"{name}.json").read_text())
    report["files_sha256"]["model.safetensors"] = "other weights"
    other = project / "other" / f"{name}.json"
    other.parent.mkdir(exist_ok=True)
    other.write_text(json.dumps(report))
    assert checkpoint_identity(other) != weights == checkpoint_identity(project / "models" / f"{name}.json")
    # The engine is in the record, which nothing depends on.
    record = json.loads(path.with_suffix(".provenance.json").read_text())
    assert record["parameters"]["engine.kind"] == "transformers" and record["stage"] == "preflight"


def test_nothing_is_written_where_a_check_fails(project, stand_ins, tmp_path):
    params = write_params(tmp_path / "params.yaml", project, stand_ins, "models.gemma3_4b.terminator=eos")
    refused = {name: tmp_path / "refused" / f"{name}.json" for name in ("output", "details")}
    with pytest.raises(ModelError, match="ends a turn with '<end_of_turn>'"):
        run_stage(params, "preflight@gemma3_4b", **refused)
    assert not list(tmp_path.glob("refused/*.json"))


def test_check_model_refuses_an_unpinned_date(project, stand_ins, tmp_path):
    override = "~models.gpt_oss_20b.chat.template_arguments.current_date"
    params = write_params(tmp_path / "params.yaml", project, stand_ins, override)
    with pytest.raises(ModelError, match="prints today's date"):
        run_stage(params, "check-model@gpt_oss_20b", output=tmp_path / "report.json")
