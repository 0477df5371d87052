"""What a table holds, and its CSV, Markdown and LaTeX: bold best, undefined and missing cells."""

import math

import pytest

from pipeline.axes.structured import tables as structured_tables
from pipeline.report.tables import table as tables
from pipeline.report.tables import table_text
from pipeline.report.tables.table import Measure, build_table
from tests.report.conftest import CONDITIONS, metric_frame, metric_row

NAMES = {"a": "Model_A", "b": "Model B"}
VALUES = {("a", "base"): 0.5, ("a", "soft"): 0.1, ("a", "hard"): 0.2, ("b", "base"): math.nan, ("b", "soft"): 0.3}


def metrics(values):
    """Rows for {(model, condition): W1}; NaN is undefined."""
    rows = []
    for (model, condition), value in values.items():
        for split in ("ood", "unseen"):
            names = ("structured", model, condition, split)
            undefined = 2 if math.isnan(value) else 0
            rows.append(metric_row(*names, "wasserstein_1_normalised", value, n=900, floor=0.02, undefined=undefined))
            rows.append(metric_row(*names, "logit_kl_nats", 1.5, n=6, width=0.5))
            rows.append(metric_row(*names, "valid_rate", 0.5, n=1000, width=0.1))
    return metric_frame(rows)


@pytest.fixture
def table():
    return structured_tables.structured_table(
        "table6", "Table 6. 100% & more", metrics(VALUES), "ood", NAMES, CONDITIONS
    )


def test_best_undefined_and_missing_cells(table):
    markdown = table_text.to_markdown(table)
    first, second = (line for line in markdown.splitlines() if line.startswith("| Model") and "W1" not in line)
    assert first.startswith(r"| Model\_A |")
    assert first.split("|")[2:5] == [
        " 0.5000 [0.4900, 0.5100] ",
        " **0.1000** [0.0900, 0.1100] ",
        " 0.2000 [0.1900, 0.2100] ",
    ]
    assert second.split("|")[2:5] == [" — (2 families undefined) ", " **0.3000** [0.2900, 0.3100] ", " not run "]
    assert table.missing == ["b hard"]
    assert "Not run: b hard." in markdown and first.split("|")[5] == " 25.0 (0.02) "


def test_latex(table):
    latex = table_text.to_latex(table)
    assert r"Model\_A & 0.5000 {[}0.4900, 0.5100{]} & \textbf{0.1000} {[}0.0900, 0.1100{]} & 0.2000" in latex
    assert r"Model B & \textemdash{} (2 families undefined) & \textbf{0.3000}" in latex
    assert r"100\% \& more" in latex and "not run" in latex


def test_csv_tells_undefined_from_not_run(table):
    frame = table_text.to_frame(table).set_index(["model", "condition", "metric"])
    assert frame.loc[("b", "base", "wasserstein_1_normalised"), "status"] == "undefined"
    assert frame.loc[("b", "hard", "wasserstein_1_normalised"), "status"] == "not run"
    assert frame.loc[("a", "soft", "wasserstein_1_normalised"), "value"] == 0.1
    assert set(frame["axis"]) == {"structured"} and set(frame["split"]) == {"ood"}


def test_conditions_as_rows_and_a_floor_column():
    measures = [
        Measure("wasserstein_1_normalised", "W1", 2, True, split="ood"),
        Measure("wasserstein_1_normalised", "Floor", 2, None, split="ood", field="floor"),
    ]
    table = build_table("t", "T", metrics(VALUES), NAMES, measures, ("soft", "hard"), conditions_are_rows=True)
    lines = [line for line in table_text.to_markdown(table).splitlines() if line.startswith("| Model")]
    assert lines == [
        "| Model | Condition | W1 | Floor |",
        r"| Model\_A | soft | **0.10** [0.09, 0.11] | 0.02 |",
        r"| Model\_A | hard | 0.20 [0.19, 0.21] | 0.02 |",
        "| Model B | soft | **0.30** [0.29, 0.31] | 0.02 |",
        "| Model B | hard | not run | not run |",
    ]
    assert len(table_text.to_frame(table)) == 4  # the floor is a column of the same row


@pytest.mark.parametrize(("number", "as_rows"), [(4, False), (5, True)])
def test_what_is_too_wide_for_a_page_has_its_conditions_as_rows(number, as_rows):
    measures = [Measure(f"m{place}", "M", 2, True, split="ood") for place in range(number)]
    table = build_table("t", "T", metrics(VALUES), NAMES, measures, ("base", "soft", "hard"))
    assert table.conditions_are_rows is as_rows
    labels, cells = next(table.lines())
    assert (len(labels), len(cells)) == ((2, number) if as_rows else (1, 3 * number))


def test_bold_follows_the_direction_and_ties_are_all_bold():
    rows = [metric_row("open", "a", c, "open", "m", v) for c, v in (("base", 1.0), ("soft", 2.0), ("hard", 2.0))]
    for lower_is_better, bold in ((True, [True, False, False]), (False, [False, True, True]), (None, [False] * 3)):
        measure = Measure("m", "M", 1, lower_is_better, "open", "open")
        table = build_table("t", "T", metric_frame(rows), {"a": "A"}, [measure], ("base", "soft", "hard"))
        assert [table_text.shown(table, "a", measure, c).best for c in table.conditions] == bold


def test_a_tested_measure_is_bold_only_where_the_best_is_shown_to_be_better():
    rows = [metric_row("open", "a", c, "open", "m", v) for c, v in (("base", 1.0), ("soft", 2.0), ("hard", 2.1))]
    measure = Measure("m", "M", 1, False, "open", "open")
    plain = build_table("t", "T", metric_frame(rows), {"a": "A"}, [measure], ("base", "soft", "hard"))

    def bold(**verdicts):
        pairs = {("a", "hard", "base"): "better", **{("a", *key.split("_")): v for key, v in verdicts.items()}}
        table = tables.bold_by_tests(plain, {("open", "open", "m"): pairs})
        assert tables.BOLD_BY_TESTS in table.note
        return [table_text.shown(table, "a", measure, c).best for c in table.conditions]

    assert bold(soft_hard="worse") == [False, False, True]
    assert bold(soft_hard="cannot tell") == bold(soft_hard="no relevant difference") == [False] * 3
    assert bold() == [False] * 3  # never tested against each other
    # Of another metric, or of averages over models, the tests say nothing.
    assert tables.bold_by_tests(plain, {("open", "open", "other"): {}}) == plain


def test_cells_are_told_apart_by_axis_and_split():
    rows = [
        metric_row("open", "a", "base", "open", "valid_rate", 0.1),
        metric_row("structured", "a", "base", "ood", "valid_rate", 0.2),
        metric_row("structured", "a", "base", "unseen", "valid_rate", 0.3),
        {**metric_row("structured", "a", "base", "unseen", "valid_rate", 0.4), "family": "poisson"},
    ]
    measures = [
        Measure("valid_rate", "V", 1, False, "open", "open"),
        Measure("valid_rate", "V", 1, False, split="unseen"),
        Measure("valid_rate", "V", 1, False, split="ood"),
        Measure("valid_rate", "V", 1, False, "mcq", "mcq"),
    ]
    table = build_table("t", "T", metric_frame(rows), {"a": "A"}, measures, ("base",))
    values = [table.cell("a", measure, "base") for measure in measures]
    assert [cell and cell.value for cell in values] == [0.1, 0.3, 0.2, None]
    assert table.missing == ["a base (mcq)"]
    assert tables.existing_measures(metric_frame(rows), measures) == measures[:3]


def test_numbers_stand_where_they_belong():
    """Of a row whose numbers are all unlike."""
    names = ("structured", "a", "base", "ood")
    row = metric_row(*names, "wasserstein_1_normalised", 0.8, n=1234, floor=0.2) | {"ci_low": 0.7, "ci_high": 0.95}
    fields = ("value", "n", "floor", "ratio")
    measures = [Measure("wasserstein_1_normalised", f, 2, True, split="ood", field=f) for f in fields]
    table = build_table("t", "T", metric_frame([row]), {"a": "A"}, measures, ("base",))
    assert table_text.to_markdown(table).splitlines()[4] == "| A | **0.80** [0.70, 0.95] | 1,234 | 0.20 | 4.00 (0.2) |"
    (written,) = table_text.to_frame(table).to_dict("records")
    assert [written[key] for key in ("value", "n", "ci_low", "ci_high", "floor")] == [0.8, 1234, 0.7, 0.95, 0.2]
    assert written["ratio"] == pytest.approx(4)


def test_number_range():
    assert tables.number_range([3, 1, 2], 0) == "1 to 3"
    assert tables.number_range([0.0231, 0.0229, math.nan], 3) == "0.023"
    assert tables.number_range([math.nan], 3) == "no"
