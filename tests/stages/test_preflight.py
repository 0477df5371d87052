"""The preflight stage: what it writes, and that downstream stages see no change when it runs again."""

import json

import pytest

from pipeline.compose import compose_params, render
from pipeline.errors import ModelError
from pipeline.stages import build_prompts, check_model, preflight
from tests.conftest import ROOT, TINY_OVERRIDES

MODELS = {"qwen3_0_6b": "qwen3", "gemma3_4b": "gemma3", "gpt_oss_20b": "gpt_oss"}
CHECKS = ["request", "turn_end", "numbers", "stop", "adapter", "law_1", "law_2", "endings"]


def write_params(path, stand_ins, *extra):
    overrides = [
        "experiment=paper",
        *TINY_OVERRIDES,
        f"artifacts={path.parent}",
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
    params = write_params(root / "params.yaml", stand_ins)
    build_prompts.main(params, root / "prompts")
    for name in MODELS:
        check_model.main(params, name, root / "prompts" / "ood.parquet", root / "models" / f"{name}.json")
    return root


def run(project, name, params=None, output="preflight"):
    path = project / output / f"{name}.json"
    preflight.main(
        params or project / "params.yaml",
        name,
        project / "models" / f"{name}.json",
        project / "prompts" / "ood.parquet",
        path,
    )
    return path


@pytest.mark.parametrize("name", MODELS)
def test_what_is_written(project, name, capsys):
    path = run(project, name)
    found = json.loads(path.read_text())
    assert len(weights := found.pop("checkpoint_sha256")) == 64
    # Nothing of the engine: another one must not train adapters again.
    assert found == {"model": name, "passed": CHECKS}
    details = json.loads(path.with_suffix(".details.json").read_text())
    assert set(CHECKS) < set(details)
    tokens = [token for _, token in details["request"]["tokens"]]
    # The request is shown token by token.
    assert " ".join(tokens) in capsys.readouterr().out
    assert details["law_1"]["p_value"] > details["law_1"]["significance"]
    # Again: the same bytes, numbers included.
    again = run(project, name, output="again")
    assert again.read_bytes() == path.read_bytes()
    assert again.with_suffix(".details.json").read_text() == path.with_suffix(".details.json").read_text()
    report = json.loads((project / "models" / f"{name}.json").read_text())
    report["files_sha256"]["model.safetensors"] = "other weights"
    other = project / "other" / f"{name}.json"
    other.parent.mkdir(exist_ok=True)
    other.write_text(json.dumps(report))
    assert preflight.checkpoint_identity(other) != weights


def test_nothing_is_written_where_a_check_fails(project, stand_ins, tmp_path):
    params = write_params(tmp_path / "params.yaml", stand_ins, "models.gemma3_4b.terminator=eos")
    with pytest.raises(ModelError, match="ends a turn with '<end_of_turn>'"):
        run(project, "gemma3_4b", params, output="refused")
    assert not list(project.glob("refused/*.json"))


def test_an_unpinned_date_is_refused(project, stand_ins, tmp_path):
    chat = "models.gpt_oss_20b.chat"
    params = write_params(tmp_path / "params.yaml", stand_ins, f"~{chat}.template_arguments.current_date")
    with pytest.raises(ModelError, match="prints today's date"):
        run(project, "gpt_oss_20b", params, output="refused")


def test_check_model_names_a_wrong_bos(project, stand_ins, tmp_path):
    import shutil

    broken = shutil.copytree(stand_ins["gemma3"], tmp_path / "broken")
    template = broken / "chat_template.jinja"
    template.write_text(template.read_text().replace("{{- bos_token }}", "{{- bos_token + bos_token }}"))
    params = write_params(tmp_path / "params.yaml", stand_ins, f"models.gemma3_4b.checkpoint={broken}")
    with pytest.raises(ModelError, match="2 BOS tokens, expected 1"):
        check_model.main(params, "gemma3_4b", project / "prompts" / "ood.parquet", tmp_path / "report.json")
