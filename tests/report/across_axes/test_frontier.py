"""The frontier from metrics made by hand: points, the table, and the method to choose."""

import math

import pandas as pd
import pytest

from pipeline.config.methods import MethodConfig
from pipeline.report.across_axes.frontier import (
    ANCHOR_KL,
    calibration,
    chosen_methods,
    frontier_points,
    frontier_table,
    scale_families,
    with_base,
)
from pipeline.report.tables.table_text import to_frame, to_latex, to_markdown
from tests.report.conftest import METHODS, PLAIN, metric_frame, metric_row

ONE = {"alpha": "Alpha"}
CONDITIONS = ("base", "soft", "hard", "anchored")


def w1(condition, ood, unseen=None, *, model="alpha", floor=0.02, width=0.005):
    """W1 on both splits."""
    values = {"ood": ood, "unseen": ood if unseen is None else unseen}
    return [
        metric_row("structured", model, condition, split, "wasserstein_1_normalised", value, width=width, floor=floor)
        for split, value in values.items()
    ]


def kept(condition, kl=None, bits=None, parsed=None, *, model="alpha"):
    """Divergence from base, change of bits per byte, and parsed questions, as far as they are given."""
    rows = []
    if kl is not None:
        rows.append(metric_row("anchors", model, condition, "all", "anchor_kl_nats", kl, n=40))
    if bits is not None:
        rows.append(metric_row("paloma", model, condition, "all", "bits_per_byte", 2.0 + bits, n=30))
        if condition != "base":
            rows.append(metric_row("paloma", model, condition, "all", "bits_per_byte_difference", bits, n=30))
    if parsed is not None:
        rows.append(metric_row("mcq", model, condition, "mcq", "mcq_parse_rate", parsed))
    return rows


def four():
    """Anchored is nearly as well calibrated as soft and costs less than hard, which is worse in both."""
    return metric_frame(
        [
            *w1("base", 0.20, 0.16),
            *w1("soft", 0.08, 0.06),
            *w1("hard", 0.12, 0.10),
            *w1("anchored", 0.09, 0.07),
            *kept("base", 0.0, 0.0, 0.9),
            *kept("soft", 0.4, 0.3, 0.2),
            *kept("hard", 0.5, 0.1, 0.5),
            *kept("anchored", 0.1, 0.2, 0.8),
        ]
    )


def test_calibration_is_the_mean_ratio_of_both_splits():
    found = calibration(four()).loc[("alpha", "base")]
    assert found["x"] == pytest.approx((10 + 8) / 2)
    # Each split's interval reaches 0.005 / 0.02 to both sides.
    assert (found["x_low"], found["x_high"]) == pytest.approx((8.75, 9.25))
    rows = [*w1("base", 0.2), *w1("soft", 0.1)[:1], *w1("hard", 0.1, math.nan)]
    missing = calibration(metric_frame(rows))["x"]
    # Of a mean over both splits, half is not known.
    assert missing.loc["alpha"].isna().tolist() == [False, True, True]


def test_differences_of_base_from_itself_are_0_and_traced_to_its_own_evaluation():
    added = with_base(four())
    rows = added[(added["metric"] == "bits_per_byte_difference") & (added["condition"] == "base")]
    assert rows["value"].tolist() == [0.0] and rows["n"].tolist() == [30]
    assert rows["provenance"].tolist() == ["paloma/alpha/base/provenance.json"]
    # Where no method has the difference there is no axis, and nothing is added.
    assert len(with_base(metric_frame(kept("base", bits=0.0)))) == 1


def test_points_are_dominated_in_the_direction_of_each_quantity():
    points = frontier_points(four(), ONE, CONDITIONS)
    found = {
        metric: dict(zip(rows["condition"], rows["dominated_by"], strict=True))
        for metric, rows in points.groupby("metric", sort=False)
    }
    assert list(found) == ["anchor_kl_nats", "bits_per_byte_difference", "mcq_parse_rate"]
    assert found["anchor_kl_nats"] == {"base": "", "soft": "", "hard": "soft", "anchored": ""}
    # Hard costs the fewest bits of the methods; base is never worse in what is kept.
    assert found["bits_per_byte_difference"] == {"base": "", "soft": "", "hard": "", "anchored": ""}
    assert found["mcq_parse_rate"] == {"base": "", "soft": "", "hard": "anchored", "anchored": ""}
    row = points.iloc[1]
    assert (row["x"], row["y"], row["y_low"]) == pytest.approx((3.5, 0.4, 0.39))
    assert row["provenance"].count("provenance.json") == 2


def test_points_without_a_number_are_left_out():
    rows = [*w1("base", 0.2), *w1("soft", math.nan), *w1("hard", 0.1), *kept("soft", 0.1), *kept("base", 0.0)]
    points = frontier_points(metric_frame(rows), ONE, CONDITIONS)
    assert points["condition"].tolist() == ["base"]
    assert frontier_points(metric_frame([]), ONE, CONDITIONS).empty


def test_families_are_base_and_scaled_versions_of_one_adapter():
    methods = {name: MethodConfig(**values) for name, values in METHODS.items()}
    methods["soft_double"] = MethodConfig(**{**PLAIN, "merge": {"soft": 2.0}})
    found = scale_families(methods)
    assert found["soft"] == ["base", "soft_half", "soft", "soft_double"] and found["hard"] == ["base", "hard"]
    assert "merged" not in found


def paired(*rows):
    table = pd.DataFrame(rows, columns=["split", "condition", "against", "verdict"])
    return table.assign(model="alpha", metric="wasserstein_1_normalised")


def test_the_cheapest_of_the_well_calibrated_is_chosen():
    metrics = four()
    choice, measure = chosen_methods(metrics, ONE, CONDITIONS, None, 0.02)["alpha"]
    assert choice.method == "anchored" and measure == ANCHOR_KL
    # 0.12 - 0.005 is beyond 0.08 + 0.005 and the margin.
    assert choice.worse == {"hard": ("ood", "soft", False)}
    tests = paired(("ood", "soft", "hard", "cannot tell"), ("unseen", "anchored", "soft", "worse"))
    choice, _ = chosen_methods(metrics, ONE, CONDITIONS, tests, 0.02)["alpha"]
    # A test that cannot tell decides, however far apart the intervals are; on the other split there is none.
    assert choice.worse == {"anchored": ("unseen", "soft", True), "hard": ("unseen", "soft", False)}
    assert choice.method == "soft"
    # Tests against base say nothing of methods against each other.
    tests = paired(("ood", "soft", "base", "worse"), ("unseen", "soft", "base", "worse"))
    assert chosen_methods(metrics, ONE, CONDITIONS, tests, 0.02)["alpha"][0].method == "anchored"


def test_without_anchors_bits_per_byte_decide_and_without_both_nothing():
    metrics = four()
    choice, measure = chosen_methods(metrics[metrics["axis"] != "anchors"], ONE, CONDITIONS, None, 0.05)["alpha"]
    assert (choice.method, measure.metric) == ("hard", "bits_per_byte_difference")
    # A candidate without a divergence cannot be compared by it.
    part = metrics[(metrics["axis"] != "anchors") | (metrics["condition"] != "hard")]
    assert chosen_methods(part, ONE, CONDITIONS, None, 0.05)["alpha"][1].metric == "bits_per_byte_difference"
    assert chosen_methods(part, ONE, CONDITIONS, None, 0.01)["alpha"][1] == ANCHOR_KL
    choice, measure = chosen_methods(metrics[metrics["axis"] == "structured"], ONE, CONDITIONS, None, 0.05)["alpha"]
    assert (choice.method, measure) == ("", None) and choice.candidates == ("soft", "hard", "anchored")
    assert chosen_methods(metric_frame(w1("base", 0.2)), ONE, CONDITIONS, None, 0.05) == {}


def test_table_says_who_is_dominated_and_who_is_to_be_chosen():
    metrics = four()
    table = frontier_table(metrics, ONE, CONDITIONS, chosen_methods(metrics, ONE, CONDITIONS, None, 0.02))
    frame = to_frame(table)
    standings = frame.drop_duplicates("condition").set_index("condition")["frontier"].to_dict()
    assert standings == {"base": "", "soft": "", "hard": "dominated by soft", "anchored": "to choose"}
    cells = frame.set_index(["condition", "metric", "split"])
    assert cells.loc[("soft", "wasserstein_1_normalised", "unseen"), "ratio"] == pytest.approx(3.0)
    assert cells.loc[("soft", "anchor_kl_nats", "all"), "ci_low"] == pytest.approx(0.39)
    assert cells.loc[("base", "bits_per_byte_difference", "all"), "value"] == 0.0
    assert (cells["provenance"].str.count("provenance.json") == 1).all() and set(cells["status"]) == {"ok"}
    titles = [measure.title for measure in table.measures]
    assert titles[:4] == ["W1, unseen", "× perfect, unseen", "W1, OOD", "× perfect, OOD"]
    header, _, *rows = to_markdown(table).splitlines()[2:8]
    assert header.endswith("| Frontier |") and rows[2].endswith("| dominated by soft |")
    latex = to_latex(table)
    assert r"& dominated by soft \\" in latex
    assert "in calibration (mean of both splits' × perfect) and divergence from base" in table.note


def test_axes_that_were_not_run_leave_columns_out():
    metrics = metric_frame([*w1("base", 0.2), *w1("soft", 0.1), *kept("base", parsed=0.9), *kept("soft", parsed=0.2)])
    table = frontier_table(metrics, ONE, ("base", "soft", "hard"), {})
    assert [measure.metric for measure in table.measures][4:] == ["mcq_parse_rate"]
    assert set(to_frame(table)["frontier"]) == {""} and "alpha hard" in table.note
    assert frontier_table(metric_frame(kept("base", 0.0)), ONE, CONDITIONS, {}) is None
