"""Figures 2 to 8: hatching, missing bars, panels, intervals, which models and prompts are shown."""

import math

import numpy as np
import pytest
from matplotlib import pyplot as plt

from pipeline.axes.structured.figures import (
    KL,
    WASSERSTEIN,
    interval_panels,
    overlay_models,
    structured_drawings,
)
from tests.report.conftest import CONDITIONS, W1, context_of, metric_frame, metric_row, params_of

NAMES = {"a": "Model A", "b": "Model_B", "unused": "No"}
VALUES = {
    ("a", "base", "poisson"): 0.5,
    ("a", "soft", "poisson"): 0.1,
    ("b", "base", "poisson"): math.nan,
    ("b", "hard", "maxwell"): 1e11,
}


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


def test_a_panel_for_each_part_of_the_models_that_have_any():
    rows = by_family(VALUES)
    parts = {family: rows[rows["family"] == family] for family in ("poisson", "maxwell", "logser")}
    figure = interval_panels(parts, NAMES, CONDITIONS, "label")
    panels = panels_of(figure)
    assert list(panels) == ["poisson", "maxwell"]
    poisson, maxwell = panels.values()
    assert drawn(poisson, "base") == [[0.5]] and drawn(poisson, "soft") == [[0.1]]
    assert drawn(maxwell, "hard") == [[1e11]] and drawn(poisson, "perfect sampler") == [[0.02, 0.02]]
    # Undefined is a cross, and what was not run is nothing; a model without any is left out.
    assert len(drawn(poisson, "base (undefined)")) == 1 and drawn(poisson, "hard (undefined)") == []
    assert [label.get_text() for label in poisson.get_xticklabels()] == ["Model A", "Model_B"]
    assert interval_panels({"poisson": rows[:0]}, NAMES, CONDITIONS, "label") is None


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
    figure = interval_panels({"Poisson": rows}, NAMES, CONDITIONS, "label")
    (segments,) = [c.get_segments() for c in figure.axes[0].collections if len(c.get_segments())]
    assert segments[0][:, 1] == pytest.approx([drawn_low, 0.15])
    assert np.isfinite(figure.axes[0].get_ylim()).all()


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def test_overlay_models_take_the_best_of_each_tokenizer():
    tokenizers = {"a": "x", "b": "x", "c": "y"}
    values = {("a", "soft"): 0.3, ("b", "soft"): 0.15, ("c", "hard"): 0.2, ("a", "ssot"): 0.01, ("d", "soft"): 0.1}
    metrics = metric_frame([metric_row("structured", *names, "ood", W1, value) for names, value in values.items()])
    assert overlay_models(tokenizers, CONDITIONS, metrics) == ["b", "c"]
