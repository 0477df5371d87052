"""What a specification shows of the metrics, and tables as Markdown, LaTeX, CSV and HTML."""

import math
import re

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from pipeline.report.table import Cell, Column, Table, TableSpec, make_table
from pipeline.report.table_text import escape_latex, escape_markdown, one_line, shorten, to_latex
from tests.report.conftest import CONDITIONS, metric_frame, metric_row, texts

NAMES = {"a": "Model_A", "b": "Model B"}
W1 = "wasserstein_1_normalised"
ANY_TEXT = st.text(st.characters(exclude_categories=()))


def made(metrics, *columns, **more):
    return make_table(TableSpec("t", "T", columns, **more), metric_frame(metrics), NAMES, (*CONDITIONS, "ssot"))


def test_each_number_of_a_row_has_its_column():
    numbers = {"ci_low": 0.7, "ci_high": 0.95, "change": -0.25, "change_low": -0.5, "change_high": 0.125}
    row = metric_row("structured", "a", "base", "ood", W1, 0.8, n=1234, floor=0.2) | numbers
    fields = ("value", "n", "floor", "ratio", "change")
    table = made([row], *(Column(W1, field, split="ood") for field in fields))
    assert table.header[2:] == ["W1 (normalised)", "n", "Perfect sampler", "× perfect", "Change"]
    assert texts(table)["Model_A", "base"] == (
        ["0.8000 [0.7000, 0.9500]", "1,234", "0.2000", "4.0 (0.2)", "-0.2500 [-0.5000, +0.1250]"]
    )
    written = table.frame.iloc[0]
    assert [written[key] for key in ("value", "n", "ci_low", "ci_high", "floor")] == [0.8, 1234, 0.7, 0.95, 0.2]
    evaluated = table.frame[table.frame["status"] == "ok"]
    assert len(evaluated) == 1 and evaluated["provenance"].notna().all()


def test_cells_that_are_undefined_or_missing_say_so():
    rows = [
        metric_row("structured", "a", "base", "ood", W1, math.nan, undefined=2),
        metric_row("structured", "a", "soft", "ood", W1, math.nan) | {"note": "none parsed"},
        metric_row("structured", "b", "base", "ood", "valid_rate", 0.5),
    ]
    column = Column(W1, split="ood")
    shown = texts(made(rows, column, Column(W1, "ratio", split="ood")))
    assert shown["Model_A", "base"] == ["— (2 families undefined)"] * 2
    assert shown["Model_A", "soft"] == ["— (none parsed)"] * 2
    # An evaluation without the metric; none at all; one whose model could not be run.
    assert shown["Model B", "base"] == ["—"] * 2 and shown["Model B", "hard"] == ["not run"] * 2
    statuses = made(rows, column).frame.set_index(["model", "condition"])["status"]
    assert statuses.to_dict() == {("a", "base"): "undefined", ("a", "soft"): "undefined"} | dict.fromkeys(
        [("a", "hard"), ("b", "soft"), ("b", "hard")], "not run"
    )
    failed = {("structured", "b", "hard")}
    table = make_table(TableSpec("t", "T", [column]), metric_frame(rows), NAMES, CONDITIONS, failed)
    assert texts(table)["Model B", "hard"] == ["failed"]
    assert made(rows[2:], column) is None


def test_cells_are_told_apart_by_axis_split_and_family():
    rows = [
        metric_row("open", "a", "base", "open", "valid_rate", 0.1),
        metric_row("structured", "a", "base", "ood", "valid_rate", 0.2),
        metric_row("structured", "a", "base", "unseen", "valid_rate", 0.3),
        {**metric_row("structured", "a", "base", "unseen", "valid_rate", 0.4), "family": "poisson"},
        metric_row("structured", "z", "base", "unseen", "valid_rate", 0.5),
    ]
    columns = [Column("valid_rate", axis="open"), *(Column("valid_rate", split=split) for split in ("unseen", "ood"))]
    table = made(rows, *columns, Column("mcq_parse_rate"))
    cells = texts(table)["Model_A", "base"]
    assert [cell[:5] for cell in cells] == ["0.100", "0.300", "0.200"]
    assert table.frame.loc[table.frame["status"] == "ok", "value"].tolist() == [0.1, 0.3, 0.2]


def test_rows_by_split_and_by_measure_with_a_verdict():
    rows = [
        metric_row("retention", "a", "base", split, "gp_irt", value)
        for split, value in (("tinyMMLU", 0.25), ("all", 0.5))
    ]
    by_split = made(rows, Column("gp_irt"), rows_title="Task", verdict=("Says", lambda cells, c: f"{c} {len(cells)}"))
    assert by_split.header == ["Model", "Condition", "Task", "gp-IRT", "Says"] and by_split.labels == 3
    assert [row[2] for row in by_split.rows[:2]] == ["all", "tinyMMLU"]
    assert [row[4] for row in by_split.rows] == ["base 1", "base 1", "soft 0", "soft 0", "hard 0", "hard 0"]
    rows = [
        metric_row("uncertainty", "a", "base", "all", f"uncertainty_{name}_auroc", value)
        for name, value in (("laplacian_eigenvalues", 0.75), ("semantic_entropy", 0.25))
    ]
    keys = {"semantic_entropy": "Semantic", "laplacian_eigenvalues": "Laplacian"}
    table = made(rows, Column("uncertainty_{row}_auroc"), rows_title="Measure", rows=keys)
    assert [row[2:] for row in table.rows[:2]] == [
        ["Semantic", ("0.25", "[0.24, 0.26]", table.rows[0][3].tooltip)],
        ["Laplacian", ("0.75", "[0.74, 0.76]", table.rows[1][3].tooltip)],
    ]


LISTED = Table(
    "list",
    "Table 21 (b). A & b",
    ["Name", "n_1"],
    [["<a_b>", Cell("[1]", "(2)", "from \"x'")]],
    1,
    pd.DataFrame({"x": [1.23456]}),
    "100% of",
)


def test_tables_of_the_paper_keep_their_numbers():
    latex = to_latex(LISTED)
    assert "\\renewcommand{\\thetable}{21 (b)}\n\\addtocounter{table}{-1}" in latex
    assert r"\caption{A \& b} \label{tab:list}" in latex and r"100\% of" in latex
    assert r"\textless{}a\_b\textgreater{} & {[}1{]} (2) \\" in latex
    latex = to_latex(Table("t", "Tests of fit. Table 3. Slices", ["x"], [["y"]], 1, pd.DataFrame()))
    assert r"\renewcommand{\thetable}{A\arabic{table}}" in latex and "addtocounter" not in latex


@given(ANY_TEXT, st.integers(2, 40))
def test_any_text_can_be_written(text, limit):
    escaped = escape_markdown(text)
    assert len(escaped.splitlines()) <= 1 and not re.search(r"(?<!\\)(?:\\\\)*\|", escaped)
    assert re.sub(r"\\([\\`*_\[\]<>|~$&])", r"\1", escaped) == one_line(text)
    latex = escape_latex(text)
    bare = re.sub(r"\\[{}&%_#$]|\\text[a-z]+\{\}|\\ensuremath\{\\[a-z]+\}", "", latex)
    assert not re.search(r"[\\&%_#$~^]", bare) and re.sub(r"\{[\[\]*]?\}", "", bare).count("{") == 0
    (escaped + latex).encode("utf-8")
    short = shorten(text, limit)
    assert len(short) <= limit
    assert short == one_line(text) or (short.endswith("…") and one_line(text).startswith(short[:-1]))
