"""Which answers Figure 10 shows."""

import pandas as pd
import pytest

from pipeline.report.tables.answer_labels import answer_shares, displayed_labels


def test_shares_sum_over_prompts_of_a_category_and_leave_baselines_out():
    answers = pd.DataFrame(
        [("base", "x", 6), ("base", "y", 2), ("base", "x", 2), ("ssot", "z", 9), ("soft", "y", 4), ("soft", "a", 4)],
        columns=["condition", "answer", "count"],
    )
    assert answer_shares(answers) == {"base": {"x": 0.8, "y": 0.2}, "soft": {"a": 0.5, "y": 0.5}}
    assert list(answer_shares(answers)["soft"]) == ["a", "y"]
    assert answer_shares(answers[:0]) == {}


def test_labels_are_ranked_by_peak_then_total():
    shares = {
        "base": {"peak": 0.6, "both": 0.3, "low": 0.1},
        "soft": {"both": 0.3, "same": 0.3, "peak": 0.2, "low": 0.2},
    }
    # Peaks .6, .3, .3, .2; "both" has a total of .6 and "same" one of .3.
    assert displayed_labels(shares) == ["peak", "both", "same", "low"]
    assert displayed_labels({}) == []


def test_ten_of_each_condition_and_fifteen_in_all():
    base = {f"b{i:02d}": 0.09 - 0.001 * i for i in range(12)}
    soft = {f"s{i:02d}": 0.08 - 0.001 * i for i in range(12)}
    labels = displayed_labels({"base": base, "soft": soft})
    # The 10th of base has .081 and comes before the first of soft at .08; five of soft fill up.
    assert labels == [*list(base)[:10], *list(soft)[:5]]


@pytest.mark.parametrize("order", [("base", "soft", "hard"), ("hard", "base", "soft")])
def test_ties_do_not_depend_on_the_order_of_conditions(order):
    shares = {"base": {"x": 0.1, "y": 0.7}, "soft": {"x": 0.2, "y": 0.1}, "hard": {"x": 0.7, "y": 0.2}}
    assert displayed_labels({name: shares[name] for name in order}) == ["x", "y"]
