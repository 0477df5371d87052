"""Tables from the cells of a sweep, which are made by hand here: merging, seeds, what is left out, the way back."""

import copy
import json
from pathlib import Path

import pandas as pd
import pytest
import yaml

from pipeline.artifacts.storage import write_json, write_table
from pipeline.config.params import load_params
from pipeline.config.seeds import SEEDS
from pipeline.errors import ConfigError
from pipeline.record.provenance import StageRecord, sha256_path
from pipeline.runs.trace import trace_cell
from pipeline.sweep.run import Record, write_record
from pipeline.sweep.tables import (
    cells_by_seed,
    check_agreement,
    chosen_cells,
    main,
    merged_values,
    parse_arguments,
    read_cells,
)
from tests.composition import composed_params
from tests.conftest import ROOT
from tests.report.conftest import mcq, structured

TRACKED = (*SEEDS, "train.soft", "train.soft.epochs", "models.alpha", "models.beta", "prompts.families")
W1 = "wasserstein_1_normalised"


@pytest.fixture(scope="module")
def values(two_models) -> dict:
    """Parameters with the models alpha and beta, of an experiment that is not the demo."""
    return {**yaml.safe_load(two_models.read_text()), "experiment": "one_model"}


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """The current directory is a checkout with nothing but the figures that the paper prints."""
    monkeypatch.chdir(tmp_path)
    # Figures take most of a report's time and are those of any report.
    monkeypatch.setattr("pipeline.report.write.draw_all", lambda drawings, directory: {})
    # The order of the paper's models, which each command composes the configuration for.
    monkeypatch.setattr("pipeline.sweep.tables.compose_params", lambda conf, overrides: composed_params(*overrides))
    (tmp_path / "data").symlink_to(ROOT / "data")
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    return tmp_path


def write_cell(name, values, model, seed, *, status="finished", sweep="s", **changes) -> Path:
    """A cell without artifacts; ``changes`` are values by key, with "__" for a dot."""
    directory = Path("sweeps", sweep, name)
    directory.mkdir(parents=True)
    own = copy.deepcopy(values)
    own |= {**dict.fromkeys(SEEDS, seed), "models": {model: values["models"][model]}}
    for key, value in changes.items():
        *sections, last = key.split("__")
        place = own
        for section in sections:
            place = place[section]
        place[last] = value
    (directory / "params.yaml").write_text(yaml.safe_dump(own))
    (directory / "dvc.yaml").write_text("stages: {}\n")
    tracked = [key for key in TRACKED if not key.startswith("models.") or key.endswith(model)]
    write_json(
        directory / "cell.json",
        {"overrides": [f"model={model}", f"seed={seed}"], "targets": [], "parameters": dict.fromkeys(tracked)},
    )
    if status == "finished":
        write_json(directory / "finished.json", {"identity": "0" * 64, "seconds": 1.0})
    elif status != "running":
        write_record(directory, Record(str(directory), (f"model={model}",), status, stage="train", reason="error: no"))
    return directory


def evaluate(directory, model, value, prompts, conditions=("base", "soft"), steps=2):
    """Evaluations of structured sampling and MCQ, prompts and training logs of a cell, with true provenance."""
    members, path = prompts
    artifacts = directory / "artifacts"
    for place, condition in enumerate(conditions):
        own = value / (place + 1)
        structured(artifacts / "evals", model, condition, own, members)
        mcq(artifacts / "evals", model, condition, 50)
        table = {
            "prompt_id": [p.prompt_id for p in members],
            "split": "ood",
            "family": [p.family for p in members],
            "num_samples": 1000,
            "num_valid": 990,
            W1: own,
        }
        write_table(artifacts / "evals" / "structured" / model / condition / "per_prompt.parquet", pd.DataFrame(table))
    for file in artifacts.rglob("provenance.json"):
        made = {str(file.parent.relative_to(directory)): sha256_path(file.parent)}
        StageRecord("eval", {"seed": 0, "model": model}, [], "0" * 16).write(file, made)
    (artifacts / "prompts").mkdir()
    (artifacts / "prompts" / "ood.parquet").write_bytes(path.read_bytes())
    log = artifacts / "adapters" / model / "soft" / "train_log.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text("".join(json.dumps({"step": step, "loss": value}) + "\n" for step in range(steps)))


def test_cells_are_read_with_their_status(project, values):
    for name, status in (("a", "finished"), ("b", "failed"), ("c", "running"), ("d", "interrupted")):
        write_cell(name, values, "alpha", 0, status=status)
    # Finished once, and running or killed since.
    write_cell("e", values, "alpha", 0, status="finished")
    write_record(Path("sweeps/s/e"), Record("sweeps/s/e", (), "finished"))
    Path("sweeps/s/e/finished.json").unlink()
    Path("sweeps/s/jobs").mkdir()
    cells = read_cells(Path("sweeps/s"))
    assert {cell.directory.name: cell.status for cell in cells} == {
        "a": "finished",
        "b": "failed",
        "c": "unfinished",
        "d": "interrupted",
        "e": "unfinished",
    }
    assert [cell.reason for cell in cells] == ["", "stage train: error: no", "", "", ""]
    assert cells[0].artifacts == Path("sweeps/s/a/artifacts") and cells[0].name == "a [model=alpha seed=0]"
    with pytest.raises(ConfigError, match="sweeps/t: no cell of such a sweep; sweeps has s"):
        read_cells(Path("sweeps/t"))


def test_models_and_seeds_may_differ_and_what_changes_no_artifact(project, values):
    write_cell("a", values, "beta", 1, tracking__mode="offline", generate__structured__batch_size=1)
    write_cell("b", values, "alpha", 0)
    write_cell("c", values, "beta", 0)
    cells = read_cells(Path("sweeps/s"))
    check_agreement(cells)
    assert {seed: [cell.directory.name for cell in members] for seed, members in cells_by_seed(cells).items()} == {
        0: ["b", "c"],
        1: ["a"],
    }
    merged = merged_values(cells, cells[1], ["alpha", "beta"], "reports/s")
    assert merged["seed"] == 0 and list(merged["models"]) == ["alpha", "beta"] and merged["reports"] == "reports/s"
    assert list(merged_values(cells, cells[0], ["beta"], "r")["models"]) == ["beta", "alpha"]


def test_other_differences_are_an_error_that_says_how_to_choose(project, values):
    write_cell("a", values, "alpha", 0, train__soft__epochs=3)
    write_cell("b", values, "beta", 0, train__soft__epochs=5, prompts__families=["gaussian"])
    cells = read_cells(Path("sweeps/s"))
    with pytest.raises(ConfigError) as raised:
        check_agreement(cells)
    message = str(raised.value)
    assert "sweeps/s: " in message and "train.soft.epochs (3 in a, 5 in b)" in message
    assert "prompts.families (None in a, ['gaussian'] in b)" in message
    assert "--where train.soft.epochs=VALUE" in message or "--where prompts.families=VALUE" in message
    assert [cell.directory.name for cell in chosen_cells(cells, ["train.soft.epochs=5"])] == ["b"]
    assert [cell.directory.name for cell in chosen_cells(cells, ["prompts.families=null"])] == ["a"]


def test_a_model_of_several_cells_must_be_one(project, values):
    write_cell("a", values, "alpha", 0)
    write_cell("b", values, "alpha", 1, models__alpha__dtype="bfloat16")
    with pytest.raises(ConfigError, match=r"these differ in models\.alpha\.dtype \([^;]*\)\. Choose"):
        check_agreement(read_cells(Path("sweeps/s")))


@pytest.mark.parametrize(
    "where, message",
    [
        (["train.soft.epochs"], "write KEY=VALUE"),
        (["train.soft.epoch=3"], "no cell has this parameter; near it are train.soft.epochs"),
        (["seed=7"], "no cell has this value; there are 0"),
    ],
)
def test_choices_that_do_not_exist(project, values, where, message):
    write_cell("a", values, "alpha", 0)
    with pytest.raises(ConfigError, match=message):
        chosen_cells(read_cells(Path("sweeps/s")), where)


def run(*arguments):
    main(**vars(parse_arguments(arguments)))


def test_tables_of_two_models_and_the_way_back(project, values, prompts, capsys):
    for name, model, value in (("a", "beta", 0.2), ("b", "alpha", 0.4)):
        evaluate(write_cell(name, values, model, 0), model, value, prompts)
    evaluate(write_cell("c", values, "alpha", 1, status="failed"), "alpha", 0.9, prompts)
    run("s")
    printed = capsys.readouterr()
    assert "left out: c [model=alpha seed=1] is failed: stage train: error: no; log: sweeps/s/c/run.log" in printed.err
    assert "cells: 2 of seed 0; models: alpha, beta; tables are of seed 0" in printed.out
    merged = load_params(Path("reports/s/params.yaml"))
    assert list(merged.models) == ["alpha", "beta"] and merged.seed == 0 and merged.reports == "reports/s"
    assert Path("reports/s/params.yaml").read_text().splitlines()[1] == "# cells: a b"
    rows = pd.read_csv("reports/s/tables/table6.csv")
    chosen = rows[(rows["metric"] == W1) & (rows["split"] == "ood")].set_index(["model", "condition"])
    assert chosen["value"].dropna().to_dict() == {
        ("alpha", "base"): 0.4,
        ("alpha", "soft"): 0.2,
        ("beta", "base"): 0.2,
        ("beta", "soft"): 0.1,
    }
    assert not list(Path("reports/s/tables").glob("seed_*"))
    assert (Path("reports/s/plots/training_loss") / "beta.csv").exists()
    page = Path("reports/s/index.html").read_text(encoding="utf-8")
    assert "Training seed 0 alone" not in page and "sweeps/s/a/artifacts/evals/structured/beta/soft" in page
    origin = trace_cell(Path("reports/s/tables/table6.csv"), ["beta", "soft", f"metric={W1}", "split=ood"], None)
    assert origin.comparison == ("ok", "as in sweeps/s/a/artifacts/evals/structured/beta/soft/metrics.json")
    (evaluation,) = origin.evaluations
    assert evaluation.path == "sweeps/s/a/artifacts/evals/structured/beta/soft" and origin.mismatches == []


def test_tables_of_one_seed_and_over_all(project, values, prompts, capsys):
    for seed in (1, 0):
        evaluate(write_cell(f"seed{seed}", values, "alpha", seed), "alpha", 0.4 + seed / 10, prompts)
    run("s", "--output", "elsewhere")
    assert "1 of seed 0, 1 of seed 1; models: alpha; tables are of seed 0" in capsys.readouterr().out
    rows = pd.read_csv("elsewhere/tables/seed_values.csv")
    base = rows[(rows["condition"] == "base") & (rows["metric"] == W1) & (rows["split"] == "ood")].iloc[0]
    assert base["values"] == "0:0.4 1:0.5" and base["mean"] == pytest.approx(0.45) and base["seeds"] == 2
    note = "Training seed 0 alone; seeds 0, 1 are together in the tables over training seeds."
    tables = Path("elsewhere/tables")
    assert note in (tables / "table6.md").read_text(encoding="utf-8")
    assert note not in (tables / "seed_values.md").read_text(encoding="utf-8") + (tables / "table3.md").read_text()
    page = Path("elsewhere/index.html").read_text(encoding="utf-8")
    assert "Training seed 0 alone, but for the" in page and "<h2>Training seeds</h2>" in page
    assert "sweeps/s/seed1/artifacts/evals/structured/alpha/base/provenance.json" in page
    chosen = ["metric=wasserstein_1_normalised", "split=ood"]
    for table in ("seed_values", "seed_differences"):
        origin = trace_cell(tables / f"{table}.csv", [*chosen, "condition=soft"], None)
        assert origin.cell.column == "mean" and origin.mismatches == []
        assert {Path(evaluation.path).parts[2] for evaluation in origin.evaluations} == {"seed0", "seed1"}
    run("s", "--output", "elsewhere", "--where", "seed=1")
    assert not list(tables.glob("seed_*")), "tables of the earlier run are gone"


@pytest.fixture
def reported(monkeypatch) -> list[list[Path]]:
    """The directories of evaluations that reports were asked for."""
    calls = []
    monkeypatch.setattr(
        "pipeline.sweep.tables.write_report", lambda params, evals, *others, **more: calls.append(evals)
    )
    return calls


def test_unfinished_cells_count_only_where_asked_for(project, values, prompts, reported):
    cell = write_cell("a", values, "alpha", 0, status="failed")
    evaluate(cell, "alpha", 0.4, prompts)
    with pytest.raises(ConfigError, match=r"none of its cells is finished \(1 failed\); run the sweep again"):
        run("s")
    assert not Path("reports").exists()
    with pytest.raises(ConfigError, match="--seed 5: no finished cell has it; there are 0"):
        run("s", "--unfinished", "--seed", "5")
    run("s", "--unfinished")
    assert reported == [[cell / "artifacts" / "evals"]]


def test_seeds_of_training_and_sampling_are_told_apart(project, values, prompts, capsys):
    for train_seed in (0, 1):
        cell = write_cell(f"t{train_seed}", values, "alpha", 0, train_seed=train_seed)
        evaluate(cell, "alpha", 0.4 + train_seed / 10, prompts)
    run("s", "--output", "elsewhere")
    assert "1 of seed 0, 1 of seed 1; models: alpha; tables are of seed 0" in capsys.readouterr().out
    text = Path("elsewhere/tables/seed_values.md").read_text(encoding="utf-8")
    assert "Differing: train_seed. The same: seed, sampling_seed." in text
    write_cell("s1", values, "alpha", 0, sampling_seed=1)
    crossed = "train_seed and sampling_seed are crossed.*--where sampling_seed=0"
    with pytest.raises(ConfigError, match=crossed):
        run("s", "--output", "elsewhere")
