"""Composition and validation: every bad value names its key and what is allowed."""

import copy
import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

from pipeline.compose import check, check_derived, compose_params, main, recorded_overrides, write_files
from pipeline.config.params import load_params, read_yaml, validate
from pipeline.dag.tables import dag_section
from pipeline.errors import ConfigError
from pipeline.report.evaluations import flatten
from pipeline.sources.pin import downloads
from tests.composition import composed_params, set_value
from tests.conftest import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def values():
    return composed_params()


def changed(values, key, value):
    values = copy.deepcopy(values)
    set_value(values, key, value)
    return values


def written(directory: Path, *overrides: str, conf: Path = ROOT / "conf") -> Path:
    """params.yaml under the overrides, with all that follows from it beside it."""
    write_files(directory, compose_params(conf, list(overrides)), list(overrides))
    return directory / "params.yaml"


def test_committed_params_are_the_composition_of_conf():
    check(ROOT / "params.yaml", ROOT / "conf")
    assert recorded_overrides((ROOT / "params.yaml").read_text()) == []


def test_paper_experiment():
    params = validate(composed_params("experiment=paper"))
    tables = dag_section(params)
    assert len(params.models) == 12 and len(tables["generated"]) == len(tables["scored"]) == 36
    # Tries belong to tokenizers: four families, two output spaces.
    assert len(tables["tries"]) == 8
    train = params.train
    assert (train.lora_rank, train.lora_alpha, train.lora_dropout) == (16, 32, 0.05)
    assert (train.learning_rate, train.weight_decay, train.warmup_ratio) == (2e-4, 0.01, 0.03)
    assert train.global_batch_size == 32 and train.max_grad_norm is None and train.max_length == 256
    assert (train.soft.epochs, train.hard.epochs, train.hard.samples_per_prompt) == (3, 2, 16)
    assert (train.soft.paths_per_prompt, train.soft.samples_per_prompt, train.hard.completions_per_prompt) == (1, 1, 1)
    spaces = [params.discretize.soft, params.discretize.hard, params.discretize.eval]
    assert [(space.num_decimals, space.max_bins) for space in spaces] == [(5, 1001), (5, 16384), (5, 16384)]
    sampling = params.generate.structured
    assert (sampling.num_samples, sampling.max_new_tokens, sampling.temperature, sampling.top_p) == (1000, 32, 1.0, 1.0)


STYLE = {"template": "In a word: {prompt}", "read": "first_line", "mark": None, "max_new_tokens": 8}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("discretize.soft.max_bin", 5, "max_bin: unknown key; did you mean max_bins. the keys .* are num_decimals"),
        ("discretize.soft.max_bins", "many", "discretize.soft.max_bins: must be a valid integer, got 'many'"),
        ("prompts.families", ["gausian"], "prompts.families.0: did you mean gaussian.*got 'gausian'"),
        ("train", None, "train: must be a dictionary, got None"),
        ("tracking", {"mode": "auto"}, "tracking.project: a value is missing"),
        ("train.micro_batch_size", 5, "micro_batch_size 5 must divide global_batch_size 8"),
        ("train.hard.completions_per_prompt", 5, "completions_per_prompt 5 must divide hard.samples_per_prompt 8"),
        ("train.tokens_per_pass", 200, "tokens_per_pass 200 must be at least max_length 256, or null"),
        ("generate.structured.top_p", 1.5, "generate.structured.top_p: must be less than or equal to 1"),
        ("methods", {}, "methods: at least one is needed"),
        ("conditions", ["base", "sof"], "conditions: got base, sof; give null for all, or a list of base, soft"),
        ("distributed", {"strategy": "ddp", "num_processes": 1}, "distributed: strategy ddp with num_processes 1"),
        ("engine.kind", "sglang", "engine.kind: .*'vllm' or 'openai', got 'sglang'"),
        ("engine.openai.base_url", "localhost", "engine.openai: base_url 'localhost' must start with http"),
        ("sed", 1, "sed: unknown key; did you mean seed. the keys allowed here are experiment, artifacts, reports"),
        ("generate.questions.styles", {"word": {**STYLE, "template": "Now:"}}, r"word.template: must match .*prompt"),
        ("generate.questions.styles", {"word": {**STYLE, "read": "after"}}, "word: mark: .*got None for read=after"),
        ("generate.questions.styles", {"all": STYLE}, "styles: the name 'all' is .* the bare answers'"),
    ],
)
def test_bad_values_are_named(values, key, value, message):
    validate(changed(values, "generate.questions.styles", {"word": STYLE}))
    with pytest.raises(ConfigError, match=message):
        validate(changed(values, key, value))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("axes=[]", "axes: must have at least 1 item"),
        ("axes=[mcq,noveltie]", "axes.1: did you mean novelty. must be 'structured', 'open', 'mcq'"),
        ("axes=[mcq,open,mcq]", "axes: got mcq, open, mcq; give each once"),
        ("experiment=one_model", "models: at least one is needed; .model@models"),
        ("axes=[laws]", "axes: laws needs a law"),
        ("prompts.families=[]", "prompts.families: there is none, and no law"),
        ("+laws.gaussian=data/laws/drinks.yaml", "laws.gaussian: a law's name"),
        ("+laws={a: data/laws/a.yaml, b: data/mine/b.yaml}", "one directory"),
        ("+laws.a=a.yaml", "not the project's own"),
    ],
)
def test_bad_overrides_are_named(override, message):
    with pytest.raises(ConfigError, match=message):
        composed_params(override)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["selfreflect.test_answers=50"], "test_answers: got 50; must be less than generate.questions.num_samples"),
        (["selfreflect=null"], "selfreflect: a value is missing, which is needed by selfreflect"),
        (["prompts.perturbations.number=10"], "10 perturbations need as many templates"),
        (["generate.questions=null"], "generate.questions: a value is missing, which is needed by human, semcal"),
    ],
)
def test_axes_of_questions_need_their_sections(overrides, message):
    with pytest.raises(ConfigError, match=message):
        composed_params("experiment=paper", "axes=[human,inv_entropy,selfreflect]", *overrides)


def test_records_are_read():
    """Of before there were laws, questions, or styles of them."""
    recorded = load_params(ROOT / "results" / "laptop" / "params.yaml")
    assert recorded.prompts.questions is recorded.generate.questions is recorded.evaluate.inverse_entropy is None
    assert recorded.laws == {} and not {"laws", "human"} & set(recorded.possible_axes)
    assert not any("questions" in download.key for download in downloads(recorded))
    longer = load_params(ROOT / "results" / "laptop_longer" / "seed_0" / "params.yaml")
    assert longer.generate.questions.styles == {}


def test_laws_are_named_on_the_command_line():
    assert composed_params("experiment=own_law")["laws"].keys() == {"destination", "delivery_hours", "drinks"}
    alone = composed_params("experiment=own_law", "laws=none", "+laws.lunch=data/mine/lunch.yaml")
    assert alone["laws"] == {"lunch": "data/mine/lunch.yaml"} and alone["axes"] == ["laws"]


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
    (tmp_path / name).write_text(text.replace(before, after, 1))
    with pytest.raises(ConfigError, match=rf"{name}: {message}"):
        check_derived(path)
    (tmp_path / name).unlink()
    with pytest.raises(ConfigError, match=rf"{name} does not exist; `make params` writes it"):
        check_derived(path)
    # A comment in such a file says nothing to DVC.
    (tmp_path / name).write_text(f"# seen\n{text}")
    check_derived(path)


def test_experiments_of_dvc_may_change_params_but_not_which_stages_there_are(tmp_path, monkeypatch):
    path = written(tmp_path, "experiment=everything")
    text = path.read_text()
    path.write_text(text.replace("seed: 0", "seed: 1"))
    with pytest.raises(ConfigError, match="seed is not what conf/ composes to.*make params"):
        check(path, ROOT / "conf")
    monkeypatch.setenv("DVC_EXP_NAME", "some-experiment")
    check(path, ROOT / "conf")
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


def test_a_dtype_that_another_machine_chose_is_fresh(tmp_path):
    overrides = ["models.embedded.dtype=auto"]
    for dtype in ("float32", "bfloat16"):
        values = compose_params(ROOT / "conf", overrides, dtype)
        assert values["models"]["embedded"]["dtype"] == dtype
        write_files(tmp_path, values, overrides)
        check(tmp_path / "params.yaml", ROOT / "conf")
    assert compose_params(ROOT / "conf", overrides)["models"]["embedded"]["dtype"] in ("float32", "bfloat16")
    write_files(tmp_path, {**values, "seed": 9}, overrides)
    with pytest.raises(ConfigError, match=r"params\.yaml: seed is not what conf/ composes to"):
        check(tmp_path / "params.yaml", ROOT / "conf")


def test_stand_ins_replace_every_checkpoint_and_nothing_else_of_a_model():
    whole = composed_params("experiment=paper")
    small = composed_params("experiment=paper", "stand_ins=tiny")
    assert list(small["models"]) == list(whole["models"]) and "stand_ins" not in small
    for name, model in small["models"].items():
        assert model["checkpoint"].startswith("models/stand_ins/")
        assert {key for key in model if model[key] != whole["models"][name][key]} <= {"checkpoint", "revision", "dtype"}
    assert whole["require_pinned_revisions"] and not small["require_pinned_revisions"]
    with pytest.raises(ConfigError, match=r"stand_ins.checkpoints: no entry for the model embedded.*gemma3_1b"):
        composed_params("stand_ins=tiny")


def test_released_code_sets_what_its_document_lists():
    """Keys of docs/differences.md, with * for models and axes, and what the switch changes are in bijection."""
    switch = read_yaml(ROOT / "conf/compat/released_code.yaml")
    every = {f"models.*.{key}": value for key, value in flatten(switch["compat"].pop("every_model")).items()}
    changed = every | {key: value for key, value in flatten(switch).items() if not key.startswith("compat.")}
    rows = [row for row in (ROOT / "docs/differences.md").read_text().splitlines() if row.startswith("| ")]
    listed = {key for row in rows for key in re.findall(r"`([a-z*]+\.[a-z_.*]+): ", row.split(" | ")[4])}
    listed -= {"prompts.open.source"}  # a file that is not ours
    for key in changed:
        assert [pattern for pattern in listed if fnmatch(key, pattern)], key
    for pattern in listed:
        assert [key for key in changed if fnmatch(key, pattern)], pattern
    assert composed_params("compat=released_code")["compat"] == "released_code"
    # A value on the command line wins over the switch.
    single = composed_params("experiment=paper", "compat=released_code", "evaluate.mcq_parser=strict")
    assert single["evaluate"]["mcq_parser"] == "strict" and validate(single).paloma.bos == ["none"]


def test_the_paper_experiment_does_not_start_without_commits(tmp_path):
    path = written(tmp_path, "experiment=paper", "models.qwen3_8b.revision=null")
    with pytest.raises(ConfigError, match=r"models\.qwen3_8b\.revision.*: no commit, which experiment paper.*make pin"):
        check(path, ROOT / "conf")
    written(tmp_path, "experiment=paper", "stand_ins=tiny")
    check(path, ROOT / "conf")


def test_recorded_overrides_compose_again_and_right_files_are_not_written_again(tmp_path):
    path = tmp_path / "params.yaml"
    main(["seed=5"], False, False, path, ROOT / "conf")
    before = {file.name: file.read_text() for file in tmp_path.iterdir()}
    assert set(before) == {"params.yaml", "dag.yaml", "code.yaml"}
    path.write_text(before["params.yaml"].replace("lora_rank: 16", "lora_rank: 9"))
    with pytest.raises(ConfigError, match=r"train\.lora_rank is not what conf/ composes to"):
        main([], True, False, path, ROOT / "conf")
    main([], False, True, path, ROOT / "conf")
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == before
    times = {file.name: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    main([], False, True, path, ROOT / "conf")
    assert {file.name: file.stat().st_mtime_ns for file in tmp_path.iterdir()} == times


@pytest.mark.parametrize("content", ["a: [", "- 1", ""])
def test_unreadable_params(tmp_path, content):
    (tmp_path / "params.yaml").write_text(content)
    with pytest.raises(ConfigError, match=r"params\.yaml"):
        load_params(tmp_path / "params.yaml")
