"""The first screen's words, table and forest plots from metrics made by hand."""

import math

import pandas as pd
import pytest

from pipeline.report.page.aggregates import Aggregates
from pipeline.report.page.plots import ForestPanel, forest_plot, forest_plots
from pipeline.report.page.summary import SUMMARY_TITLES, summary_rows
from tests.report.conftest import CONDITIONS, metric_frame, metric_row, paired_rows

ONE = {"alpha": "Alpha"}
TWO = {"alpha": "Alpha", "beta": "Beta"}


def w1(condition, value, *, model="alpha", width=0.01, floor=0.02, split="ood"):
    return metric_row(
        "structured", model, condition, split, "wasserstein_1_normalised", value, width=width, floor=floor
    )


def verdicts(together, *by_part, metric="accuracy"):
    parts = {"all": together, **{f"t{place}": verdict for place, verdict in enumerate(by_part)}}
    members = [(split, metric, -0.1, 0.05, 0.5, 0.5, verdict) for split, verdict in parts.items()]
    return paired_rows(members).assign(model="alpha", condition="soft")


def test_table_of_the_first_screen():
    rows = [
        w1("base", 0.2),
        w1("soft", math.nan),
        metric_row("retention", "alpha", "base", "all", "gp_irt", 0.5),
        metric_row("retention", "alpha", "soft", "all", "gp_irt_difference", -0.03),
    ]
    table = summary_rows(
        Aggregates(metric_frame(rows), ONE, CONDITIONS), {"retention": verdicts("kept", "lost")}, "bits_per_byte"
    )
    assert [(name, condition) for name, condition, _ in table] == [("Alpha", c) for c in ("base", "soft", "hard")]
    base, soft, hard = (dict(zip(SUMMARY_TITLES[:2], cells[:2], strict=True)) for *_, cells in table)
    assert base["W1, held-out families"].text == "0.200" and base["× perfect sampler"].text == "10.0"
    assert base["W1, held-out families"].title == "n = 100; structured/alpha/base/provenance.json"
    assert soft["W1, held-out families"].text == "—" and hard["W1, held-out families"].text == "not run"
    assert [cell.text for cell in table[0][2]][5:7] == ["0.500", ""]
    assert [cell.text for cell in table[1][2]][5:7] == ["not run", "-0.030"]
    assert table[1][2][-1].text == "tasks kept" and table[2][2][-1].text == "not run"
    assert all(len(cells) == len(SUMMARY_TITLES) for *_, cells in table)


def test_forest_plot_places_values_intervals_and_floors():
    panel = ForestPanel("p", "W1", "structured", "ood", "wasserstein_1_normalised", "W1")
    rows = [
        w1("base", 0.2, width=0.05),
        w1("soft", 0.1),
        w1("soft", 0.3, model="beta"),
        w1("base", 0.4, split="unseen"),
    ]
    plot = forest_plot(panel, metric_frame(rows), TWO, ("base", "soft", "hard"))
    base, soft, floors = plot.figure["data"]
    assert (base["name"], base["x"], base["y"]) == ("base", [0.2], [0])
    assert base["error_x"]["array"] == pytest.approx([0.05]) == base["error_x"]["arrayminus"]
    # Two conditions and a free row for each model.
    assert (soft["x"], soft["y"]) == ([0.1, 0.3], [1, 4])
    assert (floors["x"], sorted(floors["y"])) == ([0.02] * 3, [0, 1, 4])
    assert plot.figure["layout"]["yaxis"]["tickvals"] == [0.5, 3.5]
    assert plot.sources == [f"structured/{pair}/provenance.json" for pair in ("alpha/base", "alpha/soft", "beta/soft")]
    assert forest_plot(panel, metric_frame([w1("base", math.nan)]), ONE, ("base",)) is None


def test_margins_and_zero_line_of_differences():
    rows = [metric_row("paloma", "alpha", "soft", "all", "bits_per_byte_difference_without_bos", 0.1)]
    margins = {"retention": 0.05, "paloma": 0.02}
    plots = forest_plots(metric_frame(rows), ONE, ("base", "soft"), "bits_per_byte_without_bos", margins)
    assert [plot.name for plot in plots] == ["forest-paloma"]
    band, zero = plots[0].figure["layout"]["shapes"]
    assert (band["x0"], band["x1"]) == (-0.02, 0.02) and (zero["x0"], zero["x1"]) == (0, 0)
    assert pd.isna(ForestPanel("p", "t", "a", "s", "m", "u").margin)
