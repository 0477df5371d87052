"""The whole report from fabricated evaluations of two models."""

import json
import re

import pandas as pd
import pytest
import yaml

from pipeline.axes.novelty.cases import novelty_cases
from pipeline.config.params import load_params
from pipeline.errors import ArtifactError
from pipeline.report.assemble import REPORTS, tables_by_section
from pipeline.report.context import ReportContext
from pipeline.report.evaluations import Evaluations, read_evaluations
from pipeline.report.write import write_report
from tests.report.conftest import (
    CONDITIONS,
    by_prompt,
    figures_drawn,
    mcq,
    metric_frame,
    novelty,
    open_ended,
    paloma,
    retention,
    structured,
)

CASES = {f"table{number}_stand_in" for number in range(11, 20)}


def everything(root, prompts):
    for number, model in enumerate(("alpha", "beta"), start=1):
        for place, condition in enumerate(CONDITIONS):
            structured(root, model, condition, 0.4 / (place + number), prompts)
            by_prompt(root, model, condition, 0.4 / (place + number), prompts)
            open_ended(root, model, condition, 3.0 + place)
            mcq(root, model, condition, 90 if condition != "soft" or model == "beta" else 0)
            novelty(root, model, condition, [4.0, 4.0 + number, 3.0][place])
            retention(root, model, condition, 0.3 + 0.1 * place, "lost" if model == "beta" else "kept")
            paloma(root, model, condition, 1.3 - 0.1 * place, without=0.5 if model == "alpha" else 0.0)
        structured(root, model, "ssot", 0.3 / number, prompts)


@pytest.fixture(scope="module")
def written(tmp_path_factory, two_models, prompts):
    root = tmp_path_factory.mktemp("everything")
    everything(root / "evals", prompts[0])
    write_report(load_params(two_models), [root / "evals"], [prompts[1]], root / "reports", sweeps=root / "sweeps")
    return root / "reports"


@pytest.fixture
def no_figures():
    with figures_drawn():
        yield


def test_nothing_is_shown_of_what_does_not_exist(two_models):
    evaluations = Evaluations(metric_frame([]), pd.DataFrame(), {}, {})
    tables = tables_by_section(ReportContext(load_params(two_models), evaluations, evaluations.metrics, []))
    assert set(tables) == {"summary", "method", *REPORTS}
    assert {section for section, members in tables.items() if members} == {"method"}


def test_every_table_is_written_in_every_format_and_shown(written):
    tables = {path.stem for path in (written / "tables").glob("*.csv")}
    # Two models with two curated prompts each: three cases per regime.
    assert tables >= CASES | {
        "table1",
        "table6",
        "table8",
        "table10_stand_in",
        "table23",
        "structured_tests",
        "frontier",
    }
    assert "table10" not in tables and "table11" not in tables
    for name in tables:
        assert (written / "tables" / f"{name}.md").stat().st_size
        assert r"\begin{longtable}" in (written / "tables" / f"{name}.tex").read_text(encoding="utf-8")
    document = (written / "tables" / "all_tables.tex").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\\input\{(\w+)\}", document, re.MULTILINE)) == sorted(tables)
    figures = {path.stem for path in (written / "figures").glob("*.png")}
    assert figures >= {"figure1", "figure9", "figure11", "figure13_without_bos", "paloma_differences"}
    assert {path.stem for path in (written / "figures").glob("*.pdf")} == figures
    page = (written / "index.html").read_text(encoding="utf-8")
    assert page.count('<img src="data:image/png;base64,') == len(figures) and page.count("<h3>") == len(tables)
    assert "none of 100 parsed" in page and "missing_answer" in page


def test_the_demo_says_so_in_every_table_and_caption(written, two_models):
    assert load_params(two_models).experiment == "demo"
    for path in (written / "tables").glob("*.md"):
        assert "Demo: a small embedded model" in path.read_text(encoding="utf-8") or path.stem in CASES
    assert "demo" in (written / "index.html").read_text(encoding="utf-8").lower()


def test_conditions_are_compared_and_every_row_is_traced(written):
    rows = pd.read_csv(written / "tables" / "structured_tests.csv")
    pairs = set(zip(rows["condition"], rows["against"], strict=True))
    assert pairs == {("soft", "base"), ("hard", "base"), ("soft", "hard")}  # SSOT's evaluation has no table by prompt
    assert all(path.endswith("provenance.json") for path in rows["provenance"])
    numbers = json.loads((written / "metrics.json").read_text())
    assert numbers["alpha"]["base"]["wasserstein_1_normalised"] == pytest.approx(0.4)
    families = pd.read_csv(written / "plots" / "wasserstein_1" / "beta.csv")
    assert list(families["bar"][:3]) == ["poisson base", "poisson soft", "poisson hard"] and len(families) == 6
    assert families["wasserstein_1_normalised"][:3].tolist() == pytest.approx([0.2, 0.4 / 3, 0.1])


def test_retention_is_said_in_tables_and_page(written):
    page = (written / "index.html").read_text(encoding="utf-8")
    # Three tasks and two slices of both models, of which the first task has a verdict.
    assert "In all, soft, hard: 1 kept, 1 lost, 4 cannot tell." in page and "In all, soft, hard: 4 gained." in page
    assert "<td class=''>cannot tell at n=100</td>" in page and "no_number" in page
    rows = pd.read_csv(written / "tables" / "retention_tests.csv")
    assert list(rows["verdict"][:6]) == ["kept", "cannot tell", "cannot tell"] * 2 and set(rows["n"]) == {100}
    assert "code_&amp;_more" in page and r"code\_\&\_more" in (written / "tables" / "paloma_tests.tex").read_text()
    means = pd.read_csv(written / "tables" / "table23.csv")
    assert list(means.columns[:2]) == ["slice", "display_name"]
    chosen = means[(means["slice"] == "prose") & (means["metric"] == "bits_per_byte")]
    assert list(chosen["value"]) == pytest.approx([1.3, 1.2, 1.1]) and set(chosen["n"]) == {2}


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
        others = [(config.seed + 1, tmp_path / "seed")]
        write_report(
            config, [tmp_path / "same"], [path], tmp_path / "report", sweeps=tmp_path / "none", seed_evals=others
        )


def test_cases_name_model_and_prompt(written):
    case = pd.read_csv(written / "tables" / "table11_stand_in.csv")
    # Soft helps beta by 2 at c1 and alpha by 0.5 at c2, its best where c1 is taken.
    assert set(case["model"]) == {"beta"} and set(case["prompt"]) == {"Write | a\nhaiku"}
    assert list(case["rating"]) == [9, 2, 2] * 3 and case["provenance"].str.contains("novelty").all()
    second = pd.read_csv(written / "tables" / "table12_stand_in.csv")
    assert set(second["model"]) == {"alpha"}
    assert "stand-in evaluators" in (written / "tables" / "table11_stand_in.md").read_text(encoding="utf-8")


def test_the_papers_evaluators_have_the_papers_names(tmp_path):
    for model, stand_in in (("alpha", False), ("beta", True)):
        for condition, utility in zip(CONDITIONS, (4.0, 5.0, 3.0), strict=True):
            novelty(tmp_path, model, condition, utility, stand_in)
    cases = novelty_cases(read_evaluations(tmp_path), {"alpha": "A", "beta": "B"}, CONDITIONS)
    # Two prompts of one model each: two cases per regime.
    assert [(case.name, *set(case.frame["model"])) for case in cases] == [
        (f"table{number}{suffix}", model)
        for model, suffix in (("alpha", ""), ("beta", "_stand_in"))
        for number in (11, 12, 14, 15, 17, 18)
    ]


@pytest.mark.usefixtures("no_figures")
def test_what_is_missing_is_said(tmp_path, two_models, prompts, capsys):
    structured(tmp_path / "evals", "alpha", "base", 0.4, prompts[0])
    mcq(tmp_path / "evals", "beta", "hard", 50)
    write_report(load_params(two_models), [tmp_path / "evals"], [prompts[1]], tmp_path / "reports")
    printed = capsys.readouterr().out
    assert "missing evaluations: alpha base (mcq); alpha hard (mcq, structured);" in printed
    assert (
        "beta ssot (structured)" in printed
        and "axes without any evaluation: open, novelty, retention, paloma, anchors\n" in printed
    )
    page = (tmp_path / "reports" / "index.html").read_text(encoding="utf-8")
    assert page.count('<p class="missing">Not run.</p>') == 6
    assert not (tmp_path / "reports" / "tables" / "table10.csv").exists()


@pytest.mark.usefixtures("no_figures")
def test_axes_that_are_off_are_told_from_those_that_were_not_run(tmp_path, two_models, prompts, capsys):
    """What was evaluated on an axis before it was switched off is still shown."""
    structured(tmp_path / "evals", "alpha", "base", 0.4, prompts[0])
    mcq(tmp_path / "evals", "alpha", "base", 50)
    values = yaml.safe_load(two_models.read_text())
    params = tmp_path / "params.yaml"
    params.write_text(yaml.safe_dump({**values, "axes": ["structured", "novelty"]}))
    write_report(load_params(params), [tmp_path / "evals"], [prompts[1]], tmp_path / "reports")
    printed = capsys.readouterr().out
    assert "switched off (axes): open, retention, paloma, anchors\n" in printed
    assert "axes without any evaluation: novelty\n" in printed
    page = (tmp_path / "reports" / "index.html").read_text(encoding="utf-8")
    assert page.count('<p class="missing">Switched off (axes).</p>') == 4
    assert page.count('<p class="missing">Not run.</p>') == 2
    assert (tmp_path / "reports" / "tables" / "table20.csv").exists() and "<td>run</td>" in page


@pytest.mark.usefixtures("no_figures")
def test_no_evaluation_at_all(tmp_path, two_models, prompts, capsys):
    params = load_params(two_models)
    write_report(params, [tmp_path / "none"], [prompts[1]], tmp_path / "reports")
    page = (tmp_path / "reports" / "index.html").read_text(encoding="utf-8")
    assert "Not known: no structured evaluation has been run" in page
    assert f"axes without any evaluation: {', '.join(params.possible_axes)}" in capsys.readouterr().out
