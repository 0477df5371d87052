"""The page's panels of calibration against what it costs."""

import math

import pytest

from pipeline.config.methods import MethodConfig
from pipeline.report.page.frontier_plots import frontier_plots
from pipeline.report.page.page import embedded_json
from tests.report.conftest import METHODS, metric_frame, metric_row, sampled

MODELS = {"alpha": "Alpha", "beta": "Beta"}
CHOSEN = {name: MethodConfig(**METHODS[name]) for name in ("soft", "hard", "soft_half")}


def metrics(models):
    distances = {"base": 0.2, "soft": 0.08, "hard": 0.16, "soft_half": 0.12}
    divergences = {"base": 0.0, "soft": 0.4, "hard": 0.5, "soft_half": 0.1}
    rows = sampled({(model, name): value for model in models for name, value in distances.items()})
    rows += [
        metric_row("anchors", model, name, "all", "anchor_kl_nats", value, width=math.nan if name == "base" else 0.01)
        for model in models
        for name, value in divergences.items()
    ]
    return metric_frame(rows)


def test_every_point_is_a_link_to_its_row_and_says_what_it_is():
    (plot,) = frontier_plots(metrics(["alpha"]), MODELS, CHOSEN)
    line, base, soft, hard, half = plot.figure["data"]
    assert line["mode"] == "lines" and line["x"] == pytest.approx([10, 6, 4]) and line["y"] == [0, 0.1, 0.4]
    assert [trace["name"] for trace in (base, soft, hard, half)] == ["base", "soft", "hard", "soft_half"]
    assert hard["customdata"] == ["frontier-alpha-hard"] and "dominated by soft" in hard["text"][0]
    assert hard["marker"]["color"] == ["muted"] and hard["marker"]["symbol"] == ["square-open"]
    assert soft["marker"]["color"] == ["#0072B2"] and "dominated" not in soft["text"][0]
    assert soft["error_y"]["array"] == pytest.approx([0.01]) and soft["error_x"]["arrayminus"] == pytest.approx([0.5])
    assert base["error_y"]["array"] == [None]
    perfect, level = plot.figure["layout"]["shapes"]
    assert (perfect["x0"], level["y0"]) == (1, 0.0)
    assert plot.sources[:2] == ["structured/alpha/base/provenance.json", "anchors/alpha/base/provenance.json"]
    assert "lower is better" in plot.title
    # JSON has no NaN.
    embedded_json(plot.figure)


def test_models_share_a_plot_and_are_compared_each_by_itself():
    (plot,) = frontier_plots(metrics(list(MODELS)), MODELS, CHOSEN)
    points = [trace for trace in plot.figure["data"] if trace["mode"] == "markers"]
    assert points[1]["customdata"] == ["frontier-alpha-soft", "frontier-beta-soft"]
    assert sum(trace["mode"] == "lines" for trace in plot.figure["data"]) == 2
    # Base is another for each model, so no line is drawn.
    assert len(plot.figure["layout"]["shapes"]) == 1
    assert frontier_plots(metric_frame([]), MODELS, CHOSEN) == []
