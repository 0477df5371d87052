"""Tables 6 to 9, calibration, the exact law and equal token budgets."""

import pytest

from pipeline.axes.structured.tables import structured_tables
from tests.report.conftest import context_of, metric_row, params_of, texts

EVALUATED = {"base": (0.4, 1000, 0.012), "soft": (0.1, 1000, 0.012), "ssot": (0.2, 250, 0.023)}
PARAMS = params_of(["a", "b"])


def evaluated(conditions, budget=True):
    """W1 on held-out families and twice as much on unseen parameters, of both models."""
    rows = []
    for model in PARAMS.models:
        for condition, (value, n, floor) in conditions.items():
            for split, factor in (("ood", 1), ("unseen", 2)):
                names = ("structured", model, condition, split)
                rows.append(metric_row(*names, "wasserstein_1_normalised", factor * value, n=n - 5, floor=floor))
                rows.append(metric_row(*names, "valid_rate", (n - 5) / n, n=n))
                if budget:
                    at_budget = ("wasserstein_1_normalised_at_budget", value)
                    rows.append(metric_row(*names, *at_budget, n=n // 5, floor=2 * floor))
                    rows.append(metric_row(*names, "answers_at_budget", n / 5, n=6))
    return rows


def tables(rows):
    return {table.name: table for table in structured_tables(context_of(PARAMS, rows)) if table is not None}


def test_each_condition_has_its_own_floor_and_ssot_its_own_tables():
    found = tables(evaluated(EVALUATED))
    assert list(found) == ["table6", "table7", "table8", "table9", "equal_token_budget"]
    assert found["table8"].caption.startswith("Table 8. String Seed of Thought (SSOT) beside base and soft: held-out")
    assert [cells[1] for cells in texts(found["table8"]).values()][:3] == ["33.3 (0.012)", "8.3 (0.012)", "8.7 (0.023)"]
    assert {condition for _, condition in texts(found["table6"])} == {"base", "soft", "hard"}
    assert (
        texts(found["table6"])["A", "soft"][0][:6] == "0.1000"
        and texts(found["table7"])["A", "soft"][0][:6] == "0.2000"
    )
    budget = texts(found["equal_token_budget"])
    assert budget["A", "ssot", "OOD"] == ["0.2000 [0.1900, 0.2100]", "4.3 (0.046)", "50.0 [50.0, 50.0]"]


def test_what_was_not_evaluated_has_no_table():
    without = {name: row for name, row in EVALUATED.items() if name != "ssot"}
    assert list(tables(evaluated(without, budget=False))) == ["table6", "table7"]
    assert tables([metric_row("mcq", "a", "base", "mcq", "mcq_parse_rate", 0.5)]) == {}


@pytest.mark.parametrize("condition", ["base", "batch"])
def test_calibration_has_size_interval_and_ratio_beside_each_metric(condition):
    names = ("structured", "a", condition, "ood")
    rows = [
        metric_row(*names, "pit_wasserstein_1", 0.3, n=990, floor=0.02),
        metric_row(*names, "pit_wasserstein_1_all_answers", 0.4, n=1000, floor=0.02),
        metric_row(*names, "pit_rejected_share", float("nan"), n=0, undefined=18),
    ]
    assert texts(tables(rows)["calibration"])["A", condition, "OOD"] == [
        *("1,000", "990", "0.4000 [0.3900, 0.4100]", "20.0 (0.02)", "0.3000 [0.2900, 0.3100]", "15.0 (0.02)"),
        "— (18 prompts undefined)",
    ]
