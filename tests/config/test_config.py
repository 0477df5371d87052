"""Composition and validation: every bad value names its key and what is allowed."""

import copy
from pathlib import Path

import pytest
import yaml

from pipeline.compose import check_fresh, compose_params, main, recorded_overrides, render
from pipeline.config.params import load_params, validate
from pipeline.errors import ConfigError
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def values():
    composed = compose_params(ROOT / "conf", [])
    del composed["dag"]
    return composed


def changed(values, key, value):
    values = copy.deepcopy(values)
    *parents, last = key.split(".")
    section = values
    for parent in parents:
        section = section[parent]
    section[last] = value
    return values


def test_committed_params_are_the_composition_of_conf():
    check_fresh(ROOT / "params.yaml", ROOT / "conf")
    assert recorded_overrides((ROOT / "params.yaml").read_text()) == []


def test_paper_experiment():
    composed = compose_params(ROOT / "conf", ["experiment=paper"])
    assert len(composed["models"]) == 12
    assert [len(table) for table in composed["dag"]["conditions"].values()] == [36] * 6
    # Tries belong to tokenizers: four families, two output spaces.
    assert len(composed["dag"]["tries"]) == 8
    del composed["dag"]
    params = validate(composed)
    train = params.train
    assert (train.lora_rank, train.lora_alpha, train.lora_dropout) == (16, 32, 0.05)
    assert (train.learning_rate, train.weight_decay, train.warmup_ratio) == (2e-4, 0.01, 0.03)
    assert train.global_batch_size == 32 and train.max_grad_norm is None and train.max_length == 256
    assert (train.soft.epochs, train.hard.epochs, train.hard.samples_per_prompt) == (3, 2, 16)
    assert (train.soft.estimator, train.soft.samples_per_prompt, train.hard.completions_per_prompt) == ("path", 1, 1)
    spaces = params.discretize
    assert [(s.num_decimals, s.max_bins) for s in (spaces.soft, spaces.hard, spaces.eval)] == [
        (5, 1001),
        (5, 16384),
        (5, 16384),
    ]
    sampling = params.generate.structured
    assert (sampling.num_samples, sampling.max_new_tokens, sampling.temperature, sampling.top_p) == (1000, 32, 1.0, 1.0)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("discretize.soft.max_bin", 5, "max_bin: unknown key; the keys allowed here are num_decimals, max_bins"),
        ("discretize.soft.max_bins", 1, "discretize.soft.max_bins: .*greater than or equal to 2, got 1"),
        ("discretize.soft.max_bins", "many", "discretize.soft.max_bins: .*valid integer, got 'many'"),
        ("discretize.soft.max_bins", 10.5, "discretize.soft.max_bins: .*integer"),
        ("discretize.soft.max_bins", True, "discretize.soft.max_bins: .*integer"),
        ("discretize.eval.integer_lower_tail", "drop", "'renormalise' or 'first_value', got 'drop'"),
        ("prompts.families", ["gausian"], "prompts.families.0: .*'gaussian'.*got 'gausian'"),
        ("train.learning_rate", 0, "train.learning_rate: .*greater than 0"),
        ("train.learning_rate", "2e-4", "train.learning_rate: .*valid number, got '2e-4'"),
        ("train.micro_batch_size", 5, "micro_batch_size 5 must divide global_batch_size 16"),
        ("train.hard.completions_per_prompt", 5, "completions_per_prompt 5 must divide hard.samples_per_prompt 32"),
        ("discretize.eval.max_bins", None, "discretize.eval.max_bins: .*integer"),
        ("train.tokens_per_pass", 200, "tokens_per_pass 200 must be at least max_length 256, or null"),
        ("train.soft.estimator", "pathes", "train.soft.estimator: .*'path', 'paths' or 'exact', got 'pathes'"),
        ("train.soft.completions_per_prompt", 1, "unknown key; the keys allowed here are epochs, sam"),
        ("generate.structured.top_p", 1.5, "generate.structured.top_p: .*less than or equal to 1"),
        ("models.embedded.dtype", "int8", "models.embedded.dtype: .*'float32' or 'bfloat16', got 'int8'"),
        ("models.embedded.typo", 1, "models.embedded.typo: unknown key; the keys allowed here are display_name"),
        ("distributed", {"strategy": "ddp", "num_processes": 1}, "distributed: strategy ddp with num_processes 1"),
        ("distributed.num_processes", 2, "strategy single with num_processes 2: single goes with 1"),
        ("engine.kind", "sglang", "engine.kind: .*'vllm' or 'openai', got 'sglang'"),
        ("models.embedded.num_parameters", 0.5, "models.embedded.num_parameters: .*integer"),
        ("models", {}, "models: "),
        ("seed", -1, "seed: "),
        ("sed", 1, "sed: unknown key; the keys allowed here are experiment, artifacts, reports"),
    ],
)
def test_bad_values_are_named(values, key, value, message):
    with pytest.raises(ConfigError, match=message):
        validate(changed(values, key, value))


def test_missing_value_is_named(values):
    values = copy.deepcopy(values)
    del values["train"]["lora_rank"]
    with pytest.raises(ConfigError, match=r"train.lora_rank: a value is missing"):
        validate(values)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("discretize.soft.max_bins=0", "discretize.soft.max_bins"),
        ("experiment=papper", "demo.*paper"),
        ("train.epochs=3", "train.epochs"),
        ("axes=[]", r"axes: got \[\]; give a list of one or more of structured, open, mcq, novelty, retention, paloma"),
        ("axes=mcq", "axes: got 'mcq'; give a list of one or more of structured"),
        ("axes=null", "axes: got None; give a list"),
        ("axes=[mcq,noveltie]", "axes: there is no axis 'noveltie'; give a list of one or more of structured, open"),
        ("axes=[mcq,open,mcq]", "axes: mcq is named twice; give a list of .*each once"),
    ],
)
def test_bad_overrides_are_named(override, message):
    with pytest.raises(ConfigError, match=message):
        compose_params(ROOT / "conf", [override])


def test_hand_edited_params_are_refused(tmp_path):
    path = tmp_path / "params.yaml"
    overrides = ["seed=7", "train.soft={epochs: 2, samples_per_prompt: 1}"]
    path.write_text(render(compose_params(ROOT / "conf", overrides), overrides))
    check_fresh(path, ROOT / "conf")
    path.write_text(path.read_text().replace("max_bins: 1001", "max_bins: 1002"))
    with pytest.raises(ConfigError, match=r"discretize.soft.max_bins is not what conf/ composes to.*make params"):
        check_fresh(path, ROOT / "conf")


def test_experiments_of_dvc_may_change_params(tmp_path, monkeypatch):
    path, report = tmp_path / "params.yaml", tmp_path / "report.json"
    path.write_text(render(compose_params(ROOT / "conf", []), []).replace("seed: 0", "seed: 1"))
    with pytest.raises(ConfigError, match="seed is not"):
        main([], path, ROOT / "conf", check=True, recorded=False, report=report)
    assert not report.exists()
    monkeypatch.setenv("DVC_EXP_NAME", "some-experiment")
    main([], path, ROOT / "conf", check=True, recorded=False, report=report)
    assert report.exists()


def test_experiments_of_dvc_may_not_change_which_stages_there_are(tmp_path, monkeypatch):
    path = tmp_path / "params.yaml"
    monkeypatch.setenv("DVC_EXP_NAME", "some-experiment")
    text = render(compose_params(ROOT / "conf", []), [])
    for before, after, table in (
        ("- mcq\n- novelty\n", "- mcq\n", r"dag\.axes\.novelty"),
        ("    max_bins: 1001\n", "    max_bins: null\n", r"dag\.binned_spaces"),
    ):
        assert text.count(before) == 1
        path.write_text(text.replace(before, after))
        with pytest.raises(ConfigError, match=f"{table} does not follow from .*make params"):
            main([], path, ROOT / "conf", check=True, recorded=False, report=None)
    # A source of data is no stage.
    path.write_text(text.replace("source: data/paloma\n", "source: data/other\n"))
    main([], path, ROOT / "conf", check=True, recorded=False, report=None)


def test_stand_ins_replace_every_checkpoint_and_nothing_else_of_a_model():
    whole = compose_params(ROOT / "conf", ["experiment=paper"])
    small = compose_params(ROOT / "conf", ["experiment=paper", "stand_ins=tiny"])
    assert list(small["models"]) == list(whole["models"]) and "stand_ins" not in small
    for name, model in small["models"].items():
        assert model["checkpoint"].startswith("models/stand_ins/")
        changed = {key for key in model if model[key] != whole["models"][name][key]}
        assert changed <= {"checkpoint", "revision", "dtype"}
    # Same stages: only the parameters and the sources of data differ.
    assert {key: list(value) for key, value in small["dag"].items() if isinstance(value, dict)} == {
        key: list(value) for key, value in whole["dag"].items() if isinstance(value, dict)
    }
    assert whole["require_pinned_revisions"] and not small["require_pinned_revisions"]
    with pytest.raises(ConfigError, match=r"stand_ins.checkpoints: no entry for the model embedded.*gemma3_1b"):
        compose_params(ROOT / "conf", ["stand_ins=tiny"])


def test_the_paper_experiment_does_not_start_without_commits(tmp_path):
    path, report = tmp_path / "params.yaml", tmp_path / "report.json"
    unpinned = ["experiment=paper", "models.qwen3_8b.revision=null"]
    path.write_text(render(compose_params(ROOT / "conf", unpinned), unpinned))
    with pytest.raises(ConfigError, match=r"models\.qwen3_8b\.revision.*: no commit, which experiment paper.*make pin"):
        main([], path, ROOT / "conf", check=True, recorded=False, report=report)
    assert not report.exists()
    small = ["experiment=paper", "stand_ins=tiny"]
    path.write_text(render(compose_params(ROOT / "conf", small), small))
    main([], path, ROOT / "conf", check=True, recorded=False, report=report)
    assert report.exists()


def test_what_an_axis_needs_takes_no_commit_where_the_axis_is_off(tmp_path):
    path = tmp_path / "params.yaml"
    model = ["experiment=one_model", "+model@models.small=qwen3_0_6b", f"models.small.revision={'a' * 40}"]

    def check(*overrides: str) -> None:
        chosen = [*model, "retention.revisions.tinyMMLU=null", "paloma.revision=null", *overrides]
        path.write_text(render(compose_params(ROOT / "conf", chosen), chosen))
        main([], path, ROOT / "conf", check=True, recorded=False, report=None)

    check("axes=[structured,open,mcq]")
    with pytest.raises(ConfigError, match=r"retention\.revisions\.tinyMMLU, .*: no commit") as raised:
        check("axes=[mcq,retention]")
    assert "paloma" not in str(raised.value) and "novelty" not in str(raised.value)


def test_recorded_overrides_compose_again(tmp_path):
    path = tmp_path / "params.yaml"
    main(["seed=5"], path, ROOT / "conf", check=False, recorded=False, report=None)
    before = path.read_text()
    path.write_text(before.replace("lora_rank: 16", "lora_rank: 9"))
    main([], path, ROOT / "conf", check=False, recorded=True, report=None)
    assert path.read_text() == before


@pytest.mark.parametrize("content", ["a: [", "- 1", ""])
def test_unreadable_params(tmp_path, content):
    path = tmp_path / "params.yaml"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"params\.yaml"):
        load_params(path)


def test_stages_read_what_compose_writes():
    params = load_params(ROOT / "params.yaml")
    assert params.experiment == "demo"
    assert list(params.models) == ["embedded"]


def test_dvc_tracks_every_training_parameter():
    """A setting that changes an adapter must re-run its stage; only the three listed do not."""
    tracked = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    keys = set(yaml.safe_load((ROOT / "params.yaml").read_text())["train"])
    for method, other in (("soft", "hard"), ("hard", "soft")):
        listed = {
            p.removeprefix("train.") for p in tracked[f"train_{method}"]["do"]["params"] if p.startswith("train.")
        }
        assert keys - listed == {other, "checkpoint_every_steps", "tokens_per_pass"}


def test_paths_appear_only_in_dvc_yaml():
    for path in (ROOT / "pipeline").rglob("*.py"):
        assert "artifacts/" not in path.read_text(), path
    assert Path(ROOT / "dvc.yaml").read_text().count("${artifacts}") > 50
