"""Composition and validation: every bad value names its key and what is allowed."""

import copy
from pathlib import Path

import pytest
import yaml

from pipeline.compose import (
    check,
    check_composed,
    check_derived,
    compose_params,
    derived_files,
    main,
    recorded_overrides,
    write_files,
)
from pipeline.config.params import Params, load_params, validate
from pipeline.config.retention import is_local_path
from pipeline.dag.execution import execute, named_run
from pipeline.dag.tables import dag_section
from pipeline.errors import ConfigError
from pipeline.sources.fetch import downloads
from pipeline.sources.pin import unpinned
from tests.composition import composed_params
from tests.conftest import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def values():
    return composed_params()


def changed(values, key, value):
    values = copy.deepcopy(values)
    *parents, last = key.split(".")
    section = values
    for parent in parents:
        section = section[parent]
    section[last] = value
    return values


def written(directory: Path, *overrides: str, conf: Path = ROOT / "conf") -> Path:
    """params.yaml under the overrides, with all that follows from it beside it."""
    write_files(directory, compose_params(conf, list(overrides)), list(overrides))
    return directory / "params.yaml"


def test_committed_params_are_the_composition_of_conf():
    check(ROOT / "params.yaml", ROOT / "conf")
    assert recorded_overrides((ROOT / "params.yaml").read_text()) == []


def test_paper_experiment():
    composed = composed_params("experiment=paper")
    params = validate(composed)
    tables = dag_section(params)
    assert len(composed["models"]) == 12
    assert len(tables["generated"]) == len(tables["scored"]) == 36
    # Tries belong to tokenizers: four families, two output spaces.
    assert len(tables["tries"]) == 8
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
        ("engine.openai.dialect", "llama_cpp", "engine.openai: dialect llama_cpp needs samples_per_request 1"),
        ("models.embedded.num_parameters", 0.5, "models.embedded.num_parameters: .*integer"),
        ("models", {}, "models: "),
        ("seed", -1, "seed: "),
        ("tests.wasserstein_margin", 0.0, "tests.wasserstein_margin: .*greater than 0"),
        (
            "tests.kl_margin",
            0.1,
            "tests.kl_margin: unknown key; the keys allowed here are significance, wasserstein_margin",
        ),
        ("sed", 1, "sed: unknown key; the keys allowed here are experiment, artifacts, reports"),
    ],
)
def test_bad_values_are_named(values, key, value, message):
    with pytest.raises(ConfigError, match=message):
        validate(changed(values, key, value))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("word", {"template": "In a word:"}, r"styles.word.template: .*match pattern '.*prompt.*', got 'In a word:'"),
        ("word", {"read": "last_line"}, "styles.word.read: .*'first_line', 'after' or 'mentioned', got 'last_line'"),
        ("word", {"read": "after"}, "styles.word: mark: .*got None for read=after"),
        ("word", {"mark": "Answer:"}, "styles.word: mark: .*got 'Answer:' for read=first_line"),
        ("word", {"max_new_tokens": 0}, "styles.word.max_new_tokens: .*greater than or equal to 1, got 0"),
        ("In words", {}, "styles.In words.*: .*match pattern .*got 'In words'"),
        ("default", {}, "generate.questions: styles: the name 'default' is .* the bare answers'; choose another"),
        ("all", {}, "generate.questions: styles: the name 'all' is .* the bare answers'"),
        ("cool", {}, "styles: the name 'cool' is a decoding setting's or"),
    ],
)
def test_bad_styles_are_named(values, name, change, message):
    style = {"template": "In a word: {prompt}", "read": "first_line", "mark": None, "max_new_tokens": 8}
    validate(changed(values, "generate.questions.styles", {"word": style}))
    with pytest.raises(ConfigError, match=message):
        validate(changed(values, "generate.questions.styles", {name: {**style, **change}}))


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
        composed_params(override)


def test_hand_edited_params_are_refused(tmp_path):
    path = written(tmp_path, "seed=7", "train.soft={epochs: 2, samples_per_prompt: 1}")
    check(path, ROOT / "conf")
    path.write_text(path.read_text().replace("max_bins: 1001", "max_bins: 1002"))
    with pytest.raises(ConfigError, match=r"discretize.soft.max_bins is not what conf/ composes to.*make params"):
        check_composed(path, ROOT / "conf")
    with pytest.raises(ConfigError, match=r"discretize.soft.max_bins is not what conf/ composes to.*make params"):
        check(path, ROOT / "conf")


@pytest.mark.parametrize(
    ("name", "before", "after", "message"),
    [
        ("dag.yaml", "condition: hard", "condition: soft", r"dag\.generated\.embedded-hard\.condition: does not"),
        ("code.yaml", "prompts: ", "prompts: 0", r"build-prompts: the stage's code computes something else"),
    ],
)
def test_hand_edited_files_beside_params_are_refused(values, tmp_path, name, before, after, message):
    write_files(tmp_path, values, [])
    path, text = tmp_path / "params.yaml", (tmp_path / name).read_text()
    assert before in text
    (tmp_path / name).write_text(text.replace(before, after, 1))
    with pytest.raises(ConfigError, match=rf"{name}: {message}"):
        check_derived(path)
    (tmp_path / name).unlink()
    with pytest.raises(ConfigError, match=rf"{name} does not exist; `make params` writes it"):
        check_derived(path)
    # A comment in such a file says nothing to DVC.
    (tmp_path / name).write_text(f"# seen\n{text}")
    check_derived(path)


def checked(project: Path, monkeypatch: pytest.MonkeyPatch, params: Params) -> Path:
    """Run the DAG's first stage in a directory of its own; the file that it leaves."""
    if not (project / "conf").exists():
        (project / "conf").symlink_to(ROOT / "conf")
        (project / "pipeline").symlink_to(ROOT / "pipeline")
    monkeypatch.chdir(project)
    output = project / "report.json"
    execute(named_run("check-params", params, output=output))
    return output


def test_experiments_of_dvc_may_change_params(tmp_path, monkeypatch):
    path = written(tmp_path)
    path.write_text(path.read_text().replace("seed: 0", "seed: 1"))
    with pytest.raises(ConfigError, match="seed is not"):
        checked(tmp_path, monkeypatch, load_params(path))
    assert not (tmp_path / "report.json").exists()
    monkeypatch.setenv("DVC_EXP_NAME", "some-experiment")
    assert checked(tmp_path, monkeypatch, load_params(path)).exists()


def test_experiments_of_dvc_may_not_change_which_stages_there_are(tmp_path, monkeypatch):
    path = written(tmp_path)
    monkeypatch.setenv("DVC_EXP_NAME", "some-experiment")
    text = path.read_text()
    for before, after, table in (
        ("- mcq\n- novelty\n", "- mcq\n", r"dag\.novelty_source"),
        ("    max_bins: 1001\n", "    max_bins: null\n", r"dag\.spaces\.soft"),
        # Stages depend on the data by its path, which dag.yaml has.
        ("source: data/paloma\n", "source: data/other\n", r"dag\.paloma_source"),
    ):
        assert text.count(before) == 1
        path.write_text(text.replace(before, after))
        with pytest.raises(ConfigError, match=f"{table}.*: does not follow from params.yaml.*make params"):
            check(path, ROOT / "conf")
    # The number of samples adds and removes no stage.
    path.write_text(text.replace("num_samples: 1000", "num_samples: 10", 1))
    check(path, ROOT / "conf")


@pytest.mark.parametrize("experiment", ["laptop", "laptop_longer"])
def test_the_laptop_experiments_ask_nothing_of_the_hub(experiment):
    params = validate(composed_params(f"experiment={experiment}"))
    (model,) = params.models.values()
    assert "Q4_1" in model.display_name and is_local_path(model.checkpoint)
    # The Makefile imports the file to where the model's settings look for it.
    assert f"import_gguf {model.checkpoint} " in (ROOT / "Makefile").read_text()
    assert unpinned(params) == [] and downloads(params) == []
    # `make laptop` looks for the tables there.
    assert (params.artifacts, params.reports) == (f"artifacts/{experiment}", f"reports/{experiment}")
    assert list(validate(composed_params(f"experiment={experiment}", "methods=paper")).methods) == ["soft", "hard"]


def test_stand_ins_replace_every_checkpoint_and_nothing_else_of_a_model():
    whole = composed_params("experiment=paper")
    small = composed_params("experiment=paper", "stand_ins=tiny")
    assert list(small["models"]) == list(whole["models"]) and "stand_ins" not in small
    for name, model in small["models"].items():
        assert model["checkpoint"].startswith("models/stand_ins/")
        changed = {key for key in model if model[key] != whole["models"][name][key]}
        assert changed <= {"checkpoint", "revision", "dtype"}
    # Same stages: only the parameters and the sources of data differ.
    small_tables, whole_tables = (dag_section(validate(values)) for values in (small, whole))
    assert {key: list(value) for key, value in small_tables.items() if isinstance(value, dict)} == {
        key: list(value) for key, value in whole_tables.items() if isinstance(value, dict)
    }
    assert whole["require_pinned_revisions"] and not small["require_pinned_revisions"]
    with pytest.raises(ConfigError, match=r"stand_ins.checkpoints: no entry for the model embedded.*gemma3_1b"):
        composed_params("stand_ins=tiny")


@pytest.mark.parametrize("experiment", ["demo", "paper"])
def test_released_code_sets_every_key_where_practice_differs_and_no_other(experiment):
    ours = composed_params(f"experiment={experiment}")
    theirs = composed_params(f"experiment={experiment}", "compat=released_code")
    assert (ours["compat"], theirs["compat"]) == ("none", "released_code")
    params = validate(theirs)
    for name, model in params.models.items():
        assert model.terminator == "eos" and model.chat.add_special_tokens, name
    assert params.train.adapter_dtype == "bfloat16" and params.train.hard.loss_reduction == "token"
    for axis in ("structured", "open", "mcq", "novelty", "ssot"):
        assert getattr(params.generate, axis).checkpoint_defaults == ["temperature", "top_p"]
    assert params.generate.ssot.max_new_tokens == 32 and params.evaluate.mcq_parser == "released_code"
    assert params.retention.gsm8k == "twice" and params.paloma.bos == ["none"]

    def leaves(node, path=""):
        if not isinstance(node, dict) or not node:
            return {path: node}
        return {key: leaf for name, inner in node.items() for key, leaf in leaves(inner, f"{path}.{name}").items()}

    before, after = leaves(ours), leaves(theirs)
    changed_keys = {key.split(".")[-1] for key in before | after if before.get(key) != after.get(key)}
    assert changed_keys - {"terminator"} == {
        "compat",
        "add_special_tokens",
        "adapter_dtype",
        "checkpoint_defaults",
        "max_new_tokens",
        "mcq_parser",
        "gsm8k",
        "bos",
    }
    # A value on the command line wins over the switch.
    single = composed_params(f"experiment={experiment}", "compat=released_code", "retention.gsm8k=once")
    assert single["retention"]["gsm8k"] == "once"


def test_unknown_practice_is_named():
    with pytest.raises(ConfigError, match="compat: there is no 'release_code'; did you mean released_code"):
        composed_params("compat=release_code")


def test_the_paper_experiment_does_not_start_without_commits(tmp_path, monkeypatch):
    path = written(tmp_path, "experiment=paper", "models.qwen3_8b.revision=null")
    with pytest.raises(ConfigError, match=r"models\.qwen3_8b\.revision.*: no commit, which experiment paper.*make pin"):
        checked(tmp_path, monkeypatch, load_params(path))
    assert not (tmp_path / "report.json").exists()
    written(tmp_path, "experiment=paper", "stand_ins=tiny")
    assert checked(tmp_path, monkeypatch, load_params(path)).exists()


def test_what_an_axis_needs_takes_no_commit_where_the_axis_is_off(tmp_path):
    model = ["experiment=one_model", "+model@models.small=qwen3_0_6b", f"models.small.revision={'a' * 40}"]

    def check_with(*overrides: str) -> None:
        chosen = [*model, "retention.revisions.tinyMMLU=null", "paloma.revision=null", *overrides]
        check(written(tmp_path, *chosen), ROOT / "conf")

    check_with("axes=[structured,open,mcq]")
    with pytest.raises(ConfigError, match=r"retention\.revisions\.tinyMMLU, .*: no commit") as raised:
        check_with("axes=[mcq,retention]")
    assert "paloma" not in str(raised.value) and "novelty" not in str(raised.value)


def test_recorded_overrides_compose_again(tmp_path):
    path = tmp_path / "params.yaml"
    main(["seed=5"], path, ROOT / "conf", check_only=False, recorded=False)
    before = {file.name: file.read_text() for file in tmp_path.iterdir()}
    assert set(before) == {"params.yaml", "dag.yaml", "code.yaml"}
    path.write_text(before["params.yaml"].replace("lora_rank: 16", "lora_rank: 9"))
    with pytest.raises(ConfigError, match=r"train\.lora_rank is not what conf/ composes to"):
        main([], path, ROOT / "conf", check_only=True, recorded=False)
    main([], path, ROOT / "conf", check_only=False, recorded=True)
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == before
    main([], path, ROOT / "conf", check_only=True, recorded=False)


def test_files_that_are_right_are_not_written_again(values, tmp_path):
    write_files(tmp_path, values, [])
    before = {file.name: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    write_files(tmp_path, values, [])
    assert {file.name: file.stat().st_mtime_ns for file in tmp_path.iterdir()} == before
    check_derived(tmp_path / "params.yaml")
    assert set(derived_files(values)) == before.keys() - {"params.yaml"}


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
        params = tracked[f"train-{method}"]["do"]["params"]
        # The last entry is of another file: the digest of the stage's code.
        assert params[-1] == {"code.yaml": [f"train-{method}"]}
        listed = {key.removeprefix("train.") for key in params[:-1] if key.startswith("train.")}
        assert keys - listed == {other, "checkpoint_every_steps", "tokens_per_pass"}


def test_paths_appear_only_in_the_declarations():
    declarations = [ROOT / "pipeline" / "dag" / name for name in ("stages.py", "stage_kinds.py")]
    declarations += (ROOT / "pipeline" / "axes").glob("*/stages.py")
    for path in (ROOT / "pipeline").rglob("*.py"):
        assert "artifacts/" not in path.read_text(), path
        if path not in declarations:
            assert "{artifacts}/" not in path.read_text(), path
    assert sum(path.read_text().count("{artifacts}/") for path in declarations) > 0
    assert (ROOT / "dvc.yaml").read_text().count("${artifacts}") > 50
