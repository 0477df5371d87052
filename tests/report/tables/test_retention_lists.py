"""Lists of tests and estimates: verdicts with their n, dashes where undefined, and the texts of a list."""

import math

import pandas as pd

from pipeline.report.page.page import page_templates
from pipeline.report.tables import table_text
from pipeline.report.tables.retention_lists import (
    one_variant,
    primary_counts,
    verdict_counts,
    verdict_table,
)
from pipeline.report.tables.table import ListTable
from tests.report.conftest import metric_frame, metric_row, paired_rows

NAMES = {"b": "B_2", "a": "A"}
METHODS = ("soft", "hard")
STRICT, FLEXIBLE = "tinyGSM8k (strict)", "tinyGSM8k (flexible)"


def of_model(model, condition, members):
    return paired_rows(members).assign(model=model, condition=condition)


def test_rows_give_difference_interval_p_values_and_verdict_with_its_n():
    tests = of_model(
        "b",
        "soft",
        [
            ("tinyMMLU", "accuracy", -0.06, 0.05, 0.0004, 0.9, "lost"),
            ("tinyTruthfulQA", "accuracy", 0.01, 0.05, math.nan, 0.123, "cannot tell"),
        ],
    )
    metrics = metric_frame(
        [
            metric_row("retention", "b", "soft", "tinyMMLU", "accuracy", 0.5, n=80),
            metric_row("retention", "b", "soft", "tinyTruthfulQA", "accuracy", 0.6, n=100),
            metric_row("paloma", "b", "soft", "tinyMMLU", "accuracy", 0.6, n=7),
        ]
    )
    table = verdict_table("retention", tests, metrics, NAMES, METHODS, 0.05)
    assert table.rows[0] == [
        "B_2",
        "soft",
        "tinyMMLU",
        "accuracy",
        "80",
        "-0.060",
        "[-0.080, -0.040]",
        "0.05",
        "0.080",
        "<0.001",
        "0.900",
        "lost",
    ]
    assert table.rows[1][4:] == [
        "100",
        "+0.010",
        "[-0.010, +0.030]",
        "0.05",
        "0.080",
        "—",
        "0.123",
        "cannot tell at n=100",
    ]
    assert table.note.endswith("In all, soft: 1 lost, 1 cannot tell.") and "level 0.05" in table.note
    assert table.frame.loc[0, "p_difference"] == 0.0002 and table.absent == set()


def test_sizes_that_are_not_known_are_not_shown():
    tests = of_model("a", "hard", [("prose", "bits_per_byte", 0.0, 0.02, 1.0, 0.2, "cannot tell")])
    table = verdict_table("paloma", tests, metric_frame([]), NAMES, METHODS, 0.05)
    assert table.rows[0][3:6] == ["bits per byte", "—", "+0.0000"] and table.rows[0][-1] == "cannot tell"
    assert verdict_table("paloma", tests.iloc[:0], metric_frame([]), NAMES, METHODS, 0.05) is None


def test_a_second_reading_of_the_same_answers_is_counted_only_alone():
    row = ("accuracy", 0.0, 0.05, 0.5, 0.5)
    both = of_model("a", "soft", [(STRICT, *row, "lost"), (FLEXIBLE, *row, "kept")])
    assert verdict_counts(both, "soft") == {"kept": 1, "lost": 0, "gained": 0, "cannot tell": 0}
    alone = of_model("a", "soft", [(STRICT, *row, "lost")])
    assert verdict_counts(alone, "soft")["lost"] == 1 and verdict_counts(alone, "hard") == {}


def test_all_slices_together_and_a_second_variant_are_listed_but_not_counted():
    row = (-0.1, 0.02, 0.01, 0.9)
    tests = of_model(
        "a",
        "soft",
        [
            ("prose", "bits_per_byte", *row, "gained"),
            ("all", "bits_per_byte", *row, "kept"),
            ("prose", "bits_per_byte_without_bos", *row, "lost"),
            ("all", "bits_per_byte_without_bos", *row, "lost"),
        ],
    )
    only = of_model("b", "soft", [("prose", "bits_per_byte_without_bos", *row, "cannot tell")])
    both = pd.concat([tests, only], ignore_index=True)
    assert list(one_variant(both).index) == [0, 1, 4]
    assert verdict_counts(both, "soft") == {"kept": 0, "lost": 0, "gained": 1, "cannot tell": 1}
    assert primary_counts(both, "soft") == {"kept": 1, "lost": 0, "gained": 0, "cannot tell": 0}
    assert primary_counts(only, "hard") == {}
    table = verdict_table("paloma", both, metric_frame([]), NAMES, METHODS, 0.05)
    assert [line[2:4] for line in table.rows[:3]] == [
        ["prose", "bits per byte"],
        ["all", "bits per byte"],
        ["prose", "bits per byte without BOS"],
    ]
    assert table.note.endswith("In all, soft: 1 gained, 1 cannot tell.")


def test_texts_of_a_list():
    frame = pd.DataFrame({"x": [1.23456]})
    table = ListTable("list", "A & b", ["Name", "n_1"], [["<a_b>", "[1]"]], 1, frame, "100% of")
    assert table_text.to_frame(table) is frame
    assert (
        table_text.to_markdown(table) == "A & b\n\n| Name | n\\_1 |\n|---|---|\n| \\<a\\_b\\> | \\[1\\] |\n\n100% of\n"
    )
    latex = table_text.to_latex(table)
    assert r"\textless{}a\_b\textgreater{} & {[}1{]} \\" in latex and r"100\% of" in latex
    page = page_templates().get_template("tables.html.jinja").module.list_html(table)
    assert "<td class='left'>&lt;a_b&gt;</td><td class=''>[1]</td>" in page and "100% of" in page
