"""The whole report from fabricated evaluations of two models."""

import pandas as pd
import pytest

from pipeline.config.params import load_params
from pipeline.errors import ArtifactError
from pipeline.report.ablations import SOFT_GRANULARITY
from pipeline.report.evaluations import read_evaluations
from pipeline.report.write import write_report
from tests.report.conftest import anchors, figures_drawn, mcq, open_ended, retention, structured, with_methods
from tests.report.sweep_cells import write_cell


@pytest.fixture
def no_figures():
    with figures_drawn():
        yield


@pytest.mark.usefixtures("no_figures")
def test_prompt_formats_are_told_and_never_mixed(tmp_path, two_models, prompts):
    for name, formats in {"mixed": ("chat", "plain"), "same": ("plain", "plain")}.items():
        for model, prompt_format in zip(("alpha", "beta"), formats, strict=True):
            retention(tmp_path / name, model, "base", 0.5, prompt_format=prompt_format)
    config, (_, path) = load_params(two_models), prompts
    with pytest.raises(ArtifactError, match=r"several prompt formats.*: chat in .*alpha.*; plain in .*beta.*json"):
        write_report(config, [tmp_path / "mixed"], [path], tmp_path / "report", sweeps=tmp_path / "none")
    report = write_report(config, [tmp_path / "same"], [path], tmp_path / "report", sweeps=tmp_path / "none")
    notes = {table.name: table.note for table in report.tables}
    assert all("Prompts are plain text" in notes[name] for name in ("table2", "table21_models"))
    # Evaluations of other seeds stand in the same report.
    retention(tmp_path / "seed", "alpha", "base", 0.5, prompt_format="chat")
    with pytest.raises(ArtifactError, match="several prompt formats"):
        others = {config.seed + 1: read_evaluations(tmp_path / "seed")}
        write_report(config, [tmp_path / "same"], [path], tmp_path / "report", other_seeds=others)


@pytest.mark.usefixtures("no_figures")
def test_what_is_missing_is_said(tmp_path, two_models, prompts):
    structured(tmp_path / "evals", "alpha", "base", 0.4, prompts[0])
    mcq(tmp_path / "evals", "beta", "hard", 50)
    write_report(load_params(two_models), [tmp_path / "evals"], [prompts[1]], tmp_path / "reports")
    printed = (tmp_path / "reports" / "index.html").read_text(encoding="utf-8")
    assert "missing evaluations: alpha hard (mcq, structured), alpha soft (mcq, structured)" in printed
    assert "beta ssot (structured)" in printed
    assert "axes without any evaluation: open, paloma, anchors<" in printed
    assert not (tmp_path / "reports" / "tables" / "table10.csv").exists()


def test_a_report_has_the_configured_methods_in_their_order(tmp_path, two_models, prompts):
    """Evaluations of methods that are no longer configured are left out."""
    trained = ("hard", "anchored", "soft")
    methods = (*trained, "mixed")
    for place, condition in enumerate(("base", *methods)):
        structured(tmp_path / "evals", "alpha", condition, 0.4 / (1 + place), prompts[0], by_prompt=True)
        open_ended(tmp_path / "evals", "alpha", condition, 3.0 + place)
        anchors(tmp_path / "evals", "alpha", condition, 0.1 * place)
        if condition in trained:
            log = tmp_path / "adapters" / "alpha" / condition / "train_log.jsonl"
            log.parent.mkdir(parents=True)
            log.write_text('{"step": 1, "loss": 2.0}\n')
    structured(tmp_path / "evals", "alpha", "unknown", 0.01, prompts[0])
    params = with_methods(two_models, tmp_path / "params.yaml", *methods)
    arguments = ([tmp_path / "evals"], [prompts[1]], tmp_path / "reports", [tmp_path / "adapters"])
    with figures_drawn("figure3", "figure4"):
        found = write_report(params, *arguments, sweeps=tmp_path / "sweeps")
    tables = {table.name: table for table in found.tables}
    for name in ("table1", "table6", "anchors"):
        assert list(dict.fromkeys(row[1] for row in tables[name].rows)) == ["base", *methods], name
    losses = pd.read_csv(tmp_path / "reports" / "plots" / "training_loss" / "alpha.csv")
    assert list(losses.columns) == ["step", *methods]


@pytest.mark.usefixtures("no_figures")
def test_ablations_stand_in_the_report_with_their_sources(tmp_path, prompts, two_models):
    members, path = prompts
    structured(tmp_path / "evals", "alpha", "base", 0.4, members)
    for seed in (0, 1):
        for setting, value in (((2, 1001), 0.1), ((5, 1001), 0.3)):
            write_cell(tmp_path / "sweeps", SOFT_GRANULARITY, setting, seed, value + seed / 100)
    arguments = (load_params(two_models), [tmp_path / "evals"], [path], tmp_path / "reports")
    write_report(*arguments, sweeps=tmp_path / "sweeps")
    text = (tmp_path / "reports" / "tables" / "table25.md").read_text(encoding="utf-8")
    # The cells are of another model than the demo's.
    assert "beyond seed noise" in text and "Demo" not in text
    page = (tmp_path / "reports" / "index.html").read_text(encoding="utf-8")
    assert "): construction_cost (Table 24), hard_ablation (Table 26)" in page
    cell = next((tmp_path / "sweeps").glob("*/*/artifacts/evals/structured/embedded/soft/provenance.json"))
    assert f"<code>{cell}</code>" in page
