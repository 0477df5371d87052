"""One run of a stage as its declaration makes it: paths, parameters, record, unfinished work, command line."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.artifacts.locks import exclusive
from pipeline.compose import compose_params, render
from pipeline.config.params import Params, load_params
from pipeline.config.view import UndeclaredParameterError
from pipeline.dag.declaration import Stage
from pipeline.dag.execution import StageRun, find_run
from pipeline.errors import ArtifactError, BusyError, ConfigError
from tests.command_line import run_command_line
from tests.conftest import ROOT

STAGE = Stage(
    name="count_words",
    description="Words of a text",
    module="generate_axis",
    over="asked.open",
    chosen_by=("model", "condition"),
    constants={"axis": "open"},
    reads={"prompts": ("{artifacts}/prompts/open.txt", "{artifacts}/prompts/more.txt"), "weights": "{weights}"},
    sources=("{artifacts}/data.txt",),
    writes={"output": "{artifacts}/words/{model}/{condition}.json", "details": "{artifacts}/words/details.json"},
    records="{artifacts}/words/{model}/{condition}.provenance.json",
    parameters=("seed", "models.{model}.terminator", "generate.open.num_samples", "paloma.source"),
    free_parameters=("generate.open.batch_size",),
)


@pytest.fixture(scope="module")
def demo() -> Params:
    return load_params(ROOT / "params.yaml")


@pytest.fixture
def params(demo, tmp_path) -> Params:
    """The demo's parameters, with the stage's inputs in place."""
    root = tmp_path / "artifacts"
    for name in ("prompts/open.txt", "prompts/more.txt", "data.txt", "models/embedded.json"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return replace(demo, artifacts=str(root))


def run_of(params: Params, condition: str = "base", stage: Stage = STAGE, **replaced) -> StageRun:
    return find_run([stage], params, {"axis": "open", "model": "embedded", "condition": condition}, replaced)


def changed(params: Params, **open_settings) -> Params:
    return replace(params, generate=replace(params.generate, open=replace(params.generate.open, **open_settings)))


def test_a_stage_reads_what_it_declares(params):
    run = run_of(params)
    assert run.params.seed == params.seed and run.params.models["embedded"].terminator == "eos"
    assert run.params.generate.open.batch_size == params.generate.open.batch_size
    with pytest.raises(UndeclaredParameterError) as refused:
        run.params.generate.open.top_p  # noqa: B018
    assert str(refused.value).startswith("the stage count_words embedded base reads the parameter generate.open.top_p")
    with pytest.raises(UndeclaredParameterError, match=r"the parameter artifacts,"):
        run.params.artifacts  # noqa: B018


def test_identity_is_of_what_the_result_depends_on(params):
    before = run_of(params).record.identity
    assert run_of(params).record.identity == before
    # Where a file is, and how fast it goes, does not count.
    assert run_of(changed(params, batch_size=77)).record.identity == before
    assert run_of(replace(params, experiment="another", reports="elsewhere")).record.identity == before
    identities = {
        before,
        run_of(changed(params, num_samples=77)).record.identity,
        run_of(replace(params, seed=77)).record.identity,
        run_of(params, stage=replace(STAGE, module="axes.mcq.evaluate")).record.identity,
    }
    (Path(params.artifacts) / "data.txt").write_text("other data")
    identities.add(run_of(params).record.identity)
    assert len(identities) == 5


def written(run: StageRun) -> dict:
    for name in ("output", "details"):
        run.paths[name].parent.mkdir(parents=True, exist_ok=True)
        run.paths[name].write_text("{}")
    run.write_record(num_words=3)
    (path,) = Path(run.paths["output"]).parent.glob("*.provenance.json")
    return {"path": path, **json.loads(path.read_text())}


def test_the_record_is_beside_the_output(params, tmp_path):
    found = written(run_of(params))
    assert found["path"] == Path(params.artifacts) / "words" / "embedded" / "base.provenance.json"
    assert found["num_words"] == 3 and found["stage"] == "count_words" and found["identity"]
    assert found["command"] == "python -m pipeline.stages.generate_axis --axis open --model embedded --condition base"
    (tmp_path / "mine.txt").write_text("mine")
    found = written(run_of(params, prompts=[tmp_path / "mine.txt"], output=tmp_path / "elsewhere" / "mine.json"))
    assert found["path"] == tmp_path / "elsewhere" / "mine.provenance.json"
    assert str(tmp_path / "elsewhere" / "mine.json") in found["outputs_sha256"]
    assert str(tmp_path / "mine.txt") in found["inputs_sha256"] and len(found["inputs_sha256"]) == 3
    with pytest.raises(ArtifactError, match=r"nothing\.txt"):
        run_of(params, prompts=[tmp_path / "nothing.txt"]).record  # noqa: B018


def started(run: StageRun, text: str, error: BaseException | None = None, **options) -> list[str]:
    """Add a line to unfinished work, or fail while it is open; the lines that were found."""
    with run.scratch(**options) as directory:
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / "journal"
        found = path.read_text().splitlines() if path.exists() else []
        path.write_text("".join(f"{line}\n" for line in [*found, text]))
        if error is not None:
            raise error
    return found


def stopped(run: StageRun, text: str, **options) -> None:
    with pytest.raises(KeyboardInterrupt):
        started(run, text, KeyboardInterrupt(), **options)


def test_unfinished_work_is_continued_and_gone_in_the_end(params, capsys):
    stopped(run_of(params), "one")
    unfinished = run_of(params).unfinished
    root = Path(params.artifacts) / "unfinished" / "count_words"
    assert unfinished.parent == root / "embedded-base" and len(unfinished.name) == 16
    assert (unfinished / "journal").read_text() == "one\n"
    # A faster machine goes on with it.
    stopped(run_of(changed(params, batch_size=77)), "two")
    assert started(run_of(params), "three") == ["one", "two"]
    assert list(root.rglob("*")) == [] and capsys.readouterr().err == ""


def test_work_of_another_identity_is_left_where_it_is(params, capsys):
    stopped(run_of(params), "one")
    other, old = changed(params, num_samples=77), run_of(params).unfinished
    stopped(run_of(other), "two")
    assert f"{old} is unfinished work of other code, parameters or inputs: starting anew" in capsys.readouterr().out
    assert (old / "journal").read_text() == "one\n" and started(run_of(other), "three") == ["two"]


def test_only_one_process_works_on_an_output(params):
    run = run_of(params)
    with (
        exclusive(run.unfinished.parent, "count_words"),
        pytest.raises(BusyError, match="count_words embedded base is already running"),
    ):
        started(run, "one")
    # Another condition is other work.
    with exclusive(run.unfinished.parent, "count_words"):
        other = replace(STAGE, reads={}, sources=())
        assert started(run_of(params, "soft", stage=other), "one") == []


def test_work_of_one_identity_that_other_work_of_it_cannot_go_on_with(params):
    stopped(run_of(params), "one", suffix="-2")
    assert started(run_of(params), "two", suffix="-3") == []
    assert started(run_of(params), "three", suffix="-2") == ["one"]


def test_a_run_that_there_is_not_is_refused_with_those_that_there_are(params):
    with pytest.raises(ConfigError) as refused:
        run_of(params, "ssot")
    assert str(refused.value) == (
        "pipeline.stages.generate_axis has no run --axis open --model embedded --condition ssot: there are "
        "--axis open --model embedded --condition base; --axis open --model embedded --condition soft; "
        "--axis open --model embedded --condition hard; --axis open --model embedded --condition anchored"
    )
    with pytest.raises(ConfigError, match="generate_axis has no run .*: it is left out under these parameters"):
        run_of(replace(params, axes=["mcq"]))


@pytest.fixture
def params_file(tmp_path) -> Path:
    overrides = ["prompts.families=[gaussian,bernoulli]", "prompts.train_prompts_per_family=2"]
    overrides += [f"artifacts={tmp_path / 'artifacts'}", "tracking.mode=disabled"]
    path = tmp_path / "params.yaml"
    path.write_text(render(compose_params(ROOT / "conf", overrides), overrides))
    return path


def test_the_command_line_takes_paths_from_the_declaration(params_file, tmp_path, monkeypatch):
    root, other, given = tmp_path / "artifacts", tmp_path / "other.parquet", ("--params", params_file)
    run_command_line(monkeypatch, "pipeline.stages.build_structured_prompts", *given)
    assert {path.stem for path in (root / "prompts").iterdir()} == {
        *("train", "unseen", "ood", "open", "mcq", "provenance")
    }
    prompts, discretize = root / "prompts" / "ood.parquet", "pipeline.stages.discretize"
    run_command_line(monkeypatch, discretize, "--space", "soft", *given)
    assert (root / "output_spaces" / "soft.provenance.json").exists()
    run_command_line(monkeypatch, discretize, "--space", "eval", *given, "--prompts", prompts, "--output", other)
    record = json.loads(other.with_suffix(".provenance.json").read_text())
    assert list(record["inputs_sha256"]) == [str(prompts)] and record["stage"] == "discretize-eval"
    assert not (root / "output_spaces" / "eval.parquet").exists()


def test_the_command_line_says_what_it_knows_and_what_not(params_file, monkeypatch, capsys):
    with pytest.raises(SystemExit) as ended:
        run_command_line(monkeypatch, "pipeline.stages.discretize", "--space", "sofft", "--params", params_file)
    assert ended.value.code == 1
    assert capsys.readouterr().err == (
        "error: pipeline.stages.discretize has no run --space sofft: there are --space soft; --space hard; "
        "--space eval\n"
    )
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        run_command_line(monkeypatch, "pipeline.axes.structured.score", "--help")
    shown = " ".join(capsys.readouterr().out.split())
    assert "--tries TRIES read (default: {artifacts}/tries/{tokenizer}/eval)" in shown
    assert "evaluate.paths_per_prompt" in shown
