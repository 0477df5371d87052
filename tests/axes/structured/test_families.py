"""Figures 4 to 7: what is in which panel."""

import math

import numpy as np
import pytest
from matplotlib import pyplot as plt

from pipeline.axes.structured.figures import KL, WASSERSTEIN, family_panels, structured_drawings
from pipeline.core.prompts.structured import build_split
from tests.report.conftest import CONDITIONS, context_of, metric_frame, metric_row, params_of

NAMES = {"a": "Model A", "b": "Model_B", "unused": "No"}
VALUES = {
    ("a", "base", "poisson"): 0.5,
    ("a", "soft", "poisson"): 0.1,
    ("b", "base", "poisson"): math.nan,
    ("b", "hard", "maxwell"): 1e11,
}


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def by_family(values, split="ood", metric=WASSERSTEIN):
    """Rows from {(model, condition, family): value}."""
    rows = [
        {**metric_row("structured", *key[:2], split, metric, value, width=value / 2, floor=0.02), "family": key[2]}
        for key, value in values.items()
    ]
    return metric_frame(rows)


def panels_of(figure):
    return {axis.get_title(): axis for axis in figure.axes if axis.axison}


def drawn(axis, label):
    return [list(line.get_ydata()) for line in axis.lines if line.get_label() == label]


def test_one_panel_per_family_in_table_order():
    prompts = build_split("ood", selection="selected")
    figure = family_panels(by_family(VALUES), NAMES, CONDITIONS, "label", prompts)
    panels = panels_of(figure)
    assert list(panels) == ["Poisson (3 settings)", "Maxwell (3 settings)"]
    poisson, maxwell = panels.values()
    assert drawn(poisson, "base") == [[0.5]] and drawn(poisson, "soft") == [[0.1]]
    assert drawn(maxwell, "hard") == [[1e11]] and drawn(poisson, "perfect sampler") == [[0.02, 0.02]]
    # Undefined is a cross, and what was not run is nothing; a model without any is left out.
    assert len(drawn(poisson, "base (undefined)")) == 1 and drawn(poisson, "hard (undefined)") == []
    assert [label.get_text() for label in poisson.get_xticklabels()] == ["Model A", "Model_B"]
    assert family_panels(by_family({}), NAMES, CONDITIONS, "label", []) is None


def test_each_figure_draws_its_metric_and_split():
    # Four values all unlike, and those of a baseline, which the paper's figures leave out.
    shown = {"figure4": ("ood", WASSERSTEIN), "figure5": ("ood", KL), "figure6": ("unseen", KL)}
    shown["figure7"] = ("unseen", WASSERSTEIN)
    values = dict(zip(shown, (0.1, 0.2, 0.3, 0.4), strict=True))
    rows = [
        row
        for name, (split, metric) in shown.items()
        for condition, factor in (("soft", 1), ("ssot", 9))
        for row in by_family({("a", condition, "poisson"): factor * values[name]}, split, metric).to_dict("records")
    ]
    drawings = structured_drawings(context_of(params_of(["a"]), rows))
    for name in shown:
        drawing = drawings[name]
        (panel,) = panels_of(drawing.function(*drawing.arguments)).values()
        assert drawn(panel, "soft")[0] == pytest.approx([values[name]]) and drawn(panel, "ssot") == []
        assert drawing.caption.startswith(f"Figure {name[-1]}.")
        assert ("Median over" if shown[name][1] == WASSERSTEIN else "Mean over") in drawing.caption


@pytest.mark.parametrize(("low", "drawn_low"), [(0.05, 0.05), (0.0, 0.001)])
def test_intervals_are_drawn_between_their_ends(low, drawn_low):
    # A lower end of 0 has no place on a logarithmic axis.
    rows = by_family({("a", "soft", "poisson"): 0.1}).assign(ci_low=low)
    figure = family_panels(rows, NAMES, CONDITIONS, "label", [])
    (segments,) = [c.get_segments() for c in figure.axes[0].collections if len(c.get_segments())]
    assert segments[0][:, 1] == pytest.approx([drawn_low, 0.15])
    assert np.isfinite(figure.axes[0].get_ylim()).all()
