"""Figures 4 to 7: what is in which panel."""

import math

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from pipeline.axes.structured.families import WASSERSTEIN, family_drawings, family_panels, family_rows
from pipeline.core.prompts.structured import build_split
from tests.report.conftest import CONDITIONS, metric_frame, metric_row

NAMES = {"a": "Model A", "b": "Model_B", "unused": "No"}
METRIC = WASSERSTEIN


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def by_family(values, split="ood", metric=METRIC):
    """Rows from {(model, condition, family): value}."""
    return metric_frame(
        [
            {
                **metric_row("structured", model, condition, split, metric, value, width=value / 2, floor=0.02),
                "family": family,
            }
            for (model, condition, family), value in values.items()
        ]
    )


VALUES = {
    ("a", "base", "poisson"): 0.5,
    ("a", "soft", "poisson"): 0.1,
    ("b", "base", "poisson"): math.nan,
    ("b", "hard", "maxwell"): 1e11,
    ("a", "ssot", "poisson"): 0.3,
}


def panels_of(figure):
    return {axis.get_title(): axis for axis in figure.axes if axis.axison}


def drawn(axis, label):
    return [list(line.get_ydata()) for line in axis.lines if line.get_label() == label]


def test_one_panel_per_family_in_table_order_with_the_papers_conditions():
    prompts = build_split("ood", selection="selected")
    panels = panels_of(family_panels(by_family(VALUES), NAMES, CONDITIONS, METRIC, "ood", prompts))
    assert list(panels) == ["Poisson (3 settings)", "Maxwell (3 settings)"]
    poisson, maxwell = panels.values()
    assert drawn(poisson, "base") == [[0.5]] and drawn(poisson, "soft") == [[0.1]] and drawn(poisson, "ssot") == []
    assert drawn(maxwell, "hard") == [[1e11]]
    assert all(axis.get_yscale() == "log" for axis in panels.values())
    assert drawn(poisson, "perfect sampler") == [[0.02, 0.02]]


@pytest.mark.parametrize(("name", "split"), [("figure4", "ood"), ("figure7", "unseen")])
def test_figures_of_w1_draw_the_median_over_a_familys_prompts_and_those_of_kl_the_mean(name, split):
    values, kl = {("a", "soft", "poisson"): 0.1}, {"figure4": "figure5", "figure7": "figure6"}[name]
    rows = pd.concat(
        [
            by_family({key: factor * value for key, value in values.items()}, split, metric)
            for metric, factor in ((WASSERSTEIN, 1), ("wasserstein_1_normalised", 2), ("logit_kl_nats", 3))
        ]
    )
    drawings = family_drawings(rows, NAMES, CONDITIONS, [])
    for figure, value, says in ((name, 0.1, "Median over"), (kl, 0.3, "Mean over")):
        drawing = drawings[figure]
        (panel,) = panels_of(drawing.function(*drawing.arguments)).values()
        assert drawn(panel, "soft")[0] == pytest.approx([value]) and says in drawing.caption
    assert {figure for figure, drawing in drawings.items() if not drawing.arguments[0].empty} == {name, kl}


def test_undefined_is_a_cross_and_not_run_nothing():
    figure = family_panels(by_family(VALUES), NAMES, CONDITIONS, METRIC, "ood", [])
    poisson = panels_of(figure)["Poisson"]
    assert len(drawn(poisson, "base (undefined)")) == 1 and drawn(poisson, "hard (undefined)") == []
    assert [label.get_text() for label in poisson.get_xticklabels()] == ["Model A", "Model_B"]


def test_intervals_are_drawn_between_their_ends():
    figure = family_panels(by_family({("a", "soft", "poisson"): 0.1}), NAMES, CONDITIONS, METRIC, "ood", [])
    (segments,) = [c.get_segments() for c in figure.axes[0].collections if len(c.get_segments())]
    assert segments[0][:, 1] == pytest.approx([0.05, 0.15])
    # A lower end of 0 has no place on a logarithmic axis.
    rows = by_family({("a", "soft", "poisson"): 0.1}).assign(ci_low=0.0)
    figure = family_panels(rows, NAMES, CONDITIONS, METRIC, "ood", [])
    (segments,) = [c.get_segments() for c in figure.axes[0].collections if len(c.get_segments())]
    assert np.isfinite(np.log(segments[0][:, 1])).all()


def test_nothing_evaluated_is_no_figure():
    assert family_panels(by_family(VALUES), NAMES, CONDITIONS, "logit_kl_nats", "ood", []) is None
    assert family_panels(by_family(VALUES), NAMES, CONDITIONS, METRIC, "unseen", []) is None
    assert set(family_rows(by_family(VALUES), CONDITIONS, METRIC, "ood")["condition"]) == {"base", "soft", "hard"}
