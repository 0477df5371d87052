"""The first screen's forest plots from metrics made by hand."""

import math

import pytest

from pipeline.config.params import load_params
from pipeline.report.page.plots import ForestPanel, forest_plot, forest_plots
from tests.report.conftest import context_of, metric_frame, metric_row

ONE = {"alpha": "Alpha"}
TWO = {"alpha": "Alpha", "beta": "Beta"}


def w1(condition, value, *, model="alpha", width=0.01, floor=0.02, split="ood"):
    return metric_row(
        "structured", model, condition, split, "wasserstein_1_normalised", value, width=width, floor=floor
    )


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
    assert forest_plot(panel, metric_frame([w1("base", math.nan)]), ONE, ("base",)) is None


def test_margins_and_zero_line_of_differences(two_models):
    rows = [metric_row("retention", "alpha", "soft", "all", "gp_irt_difference", 0.1)]
    plots = forest_plots(context_of(load_params(two_models), rows))
    assert [plot.name for plot in plots] == ["forest-retention"]
    band, zero = plots[0].figure["layout"]["shapes"]
    assert (band["x0"], band["x1"]) == (-0.05, 0.05) and (zero["x0"], zero["x1"]) == (0, 0)
