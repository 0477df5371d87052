"""Tables from the cells of a sweep, which are made by hand here: merging, seeds, what is left out, the way back."""

import copy
import json
from pathlib import Path

import pandas as pd
import pytest
import yaml

from pipeline.artifacts.storage import write_json
from pipeline.commands import parse_arguments
from pipeline.config.params import load_params
from pipeline.config.seeds import SEEDS
from pipeline.errors import ConfigError
from pipeline.record.provenance import StageRecord, sha256_path
from pipeline.report.cells import finished_cells
from pipeline.runs.trace import trace_cell
from pipeline.sweep.tables import check_agreement, chosen_cells, main
from tests.composition import composed_params, set_value
from tests.conftest import ROOT
from tests.report.conftest import W1, mcq, structured

SWEEP = Path("sweeps/s")


@pytest.fixture(scope="module")
def values(two_models) -> dict:
    """Parameters with the models alpha and beta, of an experiment that is not the demo."""
    return {**yaml.safe_load(two_models.read_text()), "experiment": "one_model"}


@pytest.fixture(autouse=True)
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


def write_cell(name, values, model, seed, *, finished=True, **changes) -> Path:
    """A cell without artifacts; ``changes`` are values by key, with "__" for a dot."""
    directory = SWEEP / name
    directory.mkdir(parents=True)
    own = copy.deepcopy({**values, **dict.fromkeys(SEEDS, seed), "models": {model: values["models"][model]}})
    for key, value in changes.items():
        set_value(own, key.replace("__", "."), value)
    (directory / "params.yaml").write_text(yaml.safe_dump(own))
    (directory / "dvc.yaml").write_text("stages: {}\n")
    parameters = {key: own[key] for key in SEEDS} | {"train.soft": own["train"]["soft"]}
    parameters |= {f"models.{model}": own["models"][model], "prompts.families": own["prompts"]["families"]}
    overrides = [f"model={model}", f"seed={seed}"]
    write_json(directory / "cell.json", {"overrides": overrides, "targets": [], "parameters": parameters})
    if finished:
        write_json(directory / "finished.json", {"identity": "0" * 64, "seconds": 1.0})
    return directory


def evaluate(directory, model, value, prompts):
    """Evaluations of structured sampling and MCQ, prompts and a training log of a cell, with true provenance."""
    members, path = prompts
    artifacts = directory / "artifacts"
    for place, condition in enumerate(("base", "soft")):
        structured(artifacts / "evals", model, condition, value / (place + 1), members)
        mcq(artifacts / "evals", model, condition, 50)
    for file in artifacts.rglob("provenance.json"):
        made = {str(file.parent.relative_to(directory)): sha256_path(file.parent)}
        StageRecord("eval", {"seed": 0, "model": model}, [], "0" * 16).write(file, made)
    (artifacts / "prompts").mkdir()
    (artifacts / "prompts" / "ood.parquet").write_bytes(path.read_bytes())
    log = artifacts / "adapters" / model / "soft" / "train_log.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text(json.dumps({"step": 1, "loss": value}) + "\n")


def test_other_differences_are_an_error_that_says_how_to_choose(values):
    write_cell("a", values, "alpha", 0, train__soft__epochs=3)
    write_cell("b", values, "beta", 0, train__soft__epochs=5, prompts__families=["gaussian"])
    write_cell("c", values, "alpha", 1, train__soft__epochs=3, models__alpha__dtype="bfloat16")
    cells = finished_cells(SWEEP)
    with pytest.raises(ConfigError) as raised:
        check_agreement(cells)
    message = str(raised.value)
    assert "sweeps/s: " in message and "train.soft.epochs (3 in a, 5 in b)" in message
    assert (
        "models.alpha.dtype" in message
        and "prompts.families (None in a, ['gaussian'] in b)" in message
        and "--where " in message
    )
    assert [cell.directory.name for cell in chosen_cells(SWEEP, ["train.soft.epochs=5"])] == ["b"]
    assert [cell.directory.name for cell in chosen_cells(SWEEP, ["prompts.families=null", "seed=0"])] == ["a"]


@pytest.mark.parametrize(
    "where, message",
    [
        (["train.soft.epochs"], "write KEY=VALUE"),
        (["train.soft.epoch=3"], "no cell has this parameter; near it are train.soft.epochs"),
        (["seed=7"], "no cell has this value; there are 0"),
    ],
)
def test_choices_that_do_not_exist(values, where, message):
    write_cell("a", values, "alpha", 0)
    with pytest.raises(ConfigError, match=message):
        chosen_cells(SWEEP, where)
    with pytest.raises(ConfigError, match="sweeps/t: no cell; finished cells are in s"):
        chosen_cells(Path("sweeps/t"), where)


def run(*arguments):
    main(**vars(parse_arguments("pipeline.sweep.tables", arguments)))


def test_tables_of_two_models_and_the_way_back(values, prompts, capsys):
    evaluate(write_cell("c", values, "alpha", 1, finished=False), "alpha", 0.9, prompts)
    with pytest.raises(ConfigError, match="sweeps/s: none of its 1 cells is finished"):
        run("s")
    for name, model, value in (("a", "beta", 0.2), ("b", "alpha", 0.4)):
        evaluate(write_cell(name, values, model, 0), model, value, prompts)
    run("s")
    printed = capsys.readouterr()
    assert "left out, because they are not finished: c" in printed.err
    assert "cells: 2 of seed 0; models: alpha, beta; tables are of seed 0" in printed.out
    merged = load_params(Path("reports/s/params.yaml"))
    assert list(merged.models) == ["alpha", "beta"] and merged.seed == 0 and merged.reports == "reports/s"
    assert Path("reports/s/params.yaml").read_text().splitlines()[1] == "# cells: a b"
    rows = pd.read_csv("reports/s/tables/table6.csv")
    chosen = rows[(rows["metric"] == W1) & (rows["split"] == "ood")].set_index(["model", "condition"])
    found = {("alpha", "base"): 0.4, ("alpha", "soft"): 0.2, ("beta", "base"): 0.2, ("beta", "soft"): 0.1}
    assert chosen["value"].dropna().to_dict() == found
    assert not list(Path("reports/s/tables").glob("seed_*"))
    assert (Path("reports/s/plots/training_loss") / "beta.csv").exists()
    origin = trace_cell(Path("reports/s/tables/table6.csv"), ["beta", "soft", f"metric={W1}", "split=ood"], None)
    assert origin.comparison == ("ok", "as in sweeps/s/a/artifacts/evals/structured/beta/soft/metrics.json")
    (evaluation,) = origin.evaluations
    assert evaluation.path == "sweeps/s/a/artifacts/evals/structured/beta/soft" and origin.mismatches == []


def test_tables_of_one_seed_and_over_all(values, prompts, capsys):
    for seed in (1, 0):
        evaluate(write_cell(f"seed{seed}", values, "alpha", 0, train_seed=seed), "alpha", 0.4 + seed / 10, prompts)
    run("s", "--output", "elsewhere")
    assert "1 of seed 0, 1 of seed 1; models: alpha; tables are of seed 0" in capsys.readouterr().out
    rows = pd.read_csv("elsewhere/tables/seed_values.csv")
    base = rows[(rows["condition"] == "base") & (rows["metric"] == W1) & (rows["split"] == "ood")].iloc[0]
    assert base["values"] == "0:0.4 1:0.5" and base["mean"] == pytest.approx(0.45) and base["seeds"] == 2
    note = "Training seed 0 alone; seeds 0, 1 are together in the tables over training seeds."
    tables = Path("elsewhere/tables")
    assert note in (tables / "table6.md").read_text(encoding="utf-8")
    text = (tables / "seed_values.md").read_text(encoding="utf-8")
    assert note not in text and "Differing: train_seed. The same: seed, sampling_seed." in text
    page = Path("elsewhere/index.html").read_text(encoding="utf-8")
    assert 'training seed 0 (<a href="#seeds">all: 0, 1</a>)' in page and "<h2>Training seeds</h2>" in page
    assert "sweeps/s/seed1/artifacts/evals/structured/alpha/base/provenance.json" in page
    chosen = [f"metric={W1}", "split=ood", "condition=soft"]
    origin = trace_cell(tables / "seed_values.csv", chosen, "change")
    assert origin.mismatches == []
    assert {Path(evaluation.path).parts[2] for evaluation in origin.evaluations} == {"seed0", "seed1"}
    run("s", "--output", "elsewhere", "--where", "train_seed=1")
    assert not list(tables.glob("seed_*")), "tables of the earlier run are gone"
    write_cell("s1", values, "alpha", 0, sampling_seed=1)
    with pytest.raises(ConfigError, match="train_seed and sampling_seed are crossed.*--where sampling_seed=0"):
        run("s", "--output", "elsewhere")
