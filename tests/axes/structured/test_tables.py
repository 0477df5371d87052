"""Tables 6 to 9, calibration, tails, the exact law and equal token budgets."""

import math

import pytest

from pipeline.axes.structured import tables as structured_tables
from pipeline.report.tables import table_text
from tests.report.conftest import CONDITIONS, metric_frame, metric_row

NAMES = {"a": "A", "b": "B"}


def evaluated(conditions, budget=True):
    rows = []
    for model in NAMES:
        for condition, (value, n, floor) in conditions.items():
            for split in ("ood", "unseen"):
                names = ("structured", model, condition, split)
                rows.append(metric_row(*names, "wasserstein_1_normalised", value, n=n - 5, floor=floor))
                rows.append(metric_row(*names, "valid_rate", (n - 5) / n, n=n))
                if budget:
                    rows.append(
                        metric_row(*names, "wasserstein_1_normalised_at_budget", value, n=n // 5, floor=2 * floor)
                    )
                    rows.append(metric_row(*names, "answers_at_budget", n / 5, n=6))
    return metric_frame(rows)


EVALUATED = {"base": (0.4, 1000, 0.012), "soft": (0.1, 1000, 0.012), "ssot": (0.2, 250, 0.023)}


def test_table_8_has_each_conditions_own_floor():
    tables = {t.name: t for t in structured_tables.structured_tables(evaluated(EVALUATED), NAMES, CONDITIONS, True)}
    assert "from 245 to 995 valid generations per cell" in tables["table8"].note and tables["table8"].missing == []
    assert tables["table8"].caption.startswith("Table 8. String Seed of Thought (SSOT) beside base and soft: held-out")
    first = table_text.to_markdown(tables["table8"]).splitlines()[4]
    assert first.split(" | ")[1:7] == [
        "0.4000 [0.3900, 0.4100]",
        "**0.1000** [0.0900, 0.1100]",
        "0.2000 [0.1900, 0.2100]",
        "33.3 (0.012)",
        "8.3 (0.012)",
        "8.7 (0.023)",
    ]


def test_tables_6_and_7_ignore_the_baselines_and_their_floor():
    table = structured_tables.structured_table("table6", "T", evaluated(EVALUATED), "ood", NAMES, CONDITIONS)
    assert "0.023" not in table_text.to_markdown(table)
    assert set(table_text.to_frame(table)["condition"]) == {"base", "soft", "hard"}


@pytest.mark.parametrize("ssot", [False, True])
def test_tables_8_and_9_exist_where_ssot_is_a_condition(ssot):
    without = evaluated({name: row for name, row in EVALUATED.items() if name != "ssot"}, budget=False)
    names = [table.name for table in structured_tables.structured_tables(without, NAMES, CONDITIONS, ssot)]
    assert names == ["table6", "table7", *(["table8", "table9"] if ssot else [])]


def test_an_axis_without_any_evaluation_has_no_tables():
    other = metric_frame([metric_row("mcq", "a", "base", "mcq", "mcq_parse_rate", 0.5)])
    assert structured_tables.structured_tables(other, NAMES, CONDITIONS, True) == []


def test_one_evaluation_keeps_the_papers_tables_and_says_what_was_not_run():
    names = ("structured", "a", "base", "ood")
    rows = metric_frame(
        [
            metric_row(*names, metric, 0.4, n=995, floor=0.01)
            for metric in ("wasserstein_1_normalised", "logit_kl_nats", "valid_rate")
        ]
    )
    (table,) = [t for t in structured_tables.structured_tables(rows, NAMES, CONDITIONS, False) if t.name == "table6"]
    assert table.missing == ["a hard", "a soft", "b base", "b hard", "b soft"]
    row = table_text.to_markdown(table).splitlines()[5]
    assert row.startswith("| B | not run | not run | not run |")


def calibrated(split="ood"):
    """Base and batch of one model with the metrics on the PIT scale, tails and streams."""
    rows = []
    for condition, value, n, floor in (("base", 0.3, 1000, 0.02), ("batch", 0.1, 200, math.nan)):
        names = ("structured", "a", condition, split)
        rows += [
            metric_row(*names, "pit_wasserstein_1", value, n=n - 10, floor=floor),
            metric_row(*names, "pit_wasserstein_1_all_answers", value + 0.1, n=n, floor=floor),
            metric_row(*names, "pit_rejected_share", math.nan, n=0, undefined=18),
            metric_row(*names, "quantile_error_at_0.001", value, n=n - 10, floor=floor),
            metric_row(*names, "stream_correlation", 0.01, n=30),
        ]
    return metric_frame(rows)


def test_calibration_has_size_interval_floor_and_ratio_beside_each_metric():
    table = structured_tables.CALIBRATION_TABLE.tables(calibrated(), NAMES, CONDITIONS)[0]
    assert list(table.models) == ["a"] and table.conditions == ("base", "batch") and table.conditions_are_rows
    lines = table_text.to_markdown(table).splitlines()
    assert lines[2] == (
        "| Model | Condition | Answers | Valid | W1 (PIT), invalid counted | × perfect | W1 (PIT) | × perfect "
        "| Rejected (KS) |"
    )
    assert lines[4] == (
        "| A | base | 1,000 | 990 | 0.4000 [0.3900, 0.4100] | 20.0 (0.02) | 0.3000 [0.2900, 0.3100] | 15.0 (0.02) "
        "| — (18 prompts undefined) |"
    )
    # Without a perfect sampler there is no ratio.
    assert "| **0.2000** [0.1900, 0.2100] | — |" in lines[5]
    frame = table_text.to_frame(table).set_index(["metric", "condition"])
    assert frame.loc[("pit_wasserstein_1", "base"), "ratio"] == pytest.approx(15)
    assert not frame.index.duplicated().any() and math.isnan(frame.loc[("pit_wasserstein_1", "batch"), "ratio"])


def test_tails_and_streams_have_what_was_evaluated():
    tails = structured_tables.TAILS_TABLE.tables(calibrated(), NAMES, CONDITIONS)[0]
    assert [measure.title for measure in tails.measures] == ["Valid", "0.1%", "× perfect"]
    streams = structured_tables.streams_table(calibrated(), NAMES, CONDITIONS)
    assert [measure.title for measure in streams.measures] == ["Correlation, OOD"]


def test_evaluations_older_than_a_metric_have_no_table_of_it():
    old = evaluated(EVALUATED)
    for spec in (structured_tables.CALIBRATION_TABLE, structured_tables.TAILS_TABLE, structured_tables.EXACT_TABLE):
        assert spec.tables(old, NAMES, CONDITIONS) == []
    assert structured_tables.streams_table(old, NAMES, CONDITIONS) is None


def test_equal_token_budget_has_the_conditions_that_exist_in_order():
    metrics = evaluated({**EVALUATED, "batch": (0.3, 4000, 0.006)})
    _, table = structured_tables.BUDGET_TABLE.tables(metrics, NAMES, CONDITIONS)
    assert table.name == "equal_token_budget_unseen" and table.conditions == ("base", "soft", "ssot", "batch")
    assert [measure.metric for measure in table.measures] == [
        "wasserstein_1_normalised_at_budget",
        "wasserstein_1_normalised_at_budget",
        "answers_at_budget",
    ]
    lines = table_text.to_markdown(table).splitlines()
    assert "| A | ssot | 0.2000 [0.1900, 0.2100] | 0.0460 | 50.0 [50.0, 50.0] |" in lines
