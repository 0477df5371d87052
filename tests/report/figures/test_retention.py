"""Figures 11 to 13: panels, heights, intervals, axes."""

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex

from pipeline.report.figures.drawing import COLORS
from pipeline.report.retention import split_points
from tests.report.conftest import CONDITIONS, metric_frame, metric_row

NAMES = {"a": "Model A", "none": "Not run", "b": "Model B"}
TASKS = ("tinyMMLU", "tiny $x_$")


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def by_split(axis, metric, value=0.5):
    """Rows of both models; each split adds 0.1 to the value, each condition 0.01."""
    return [
        metric_row(axis, model, condition, split, metric, value + 0.1 * place + 0.01 * rank, width=0.05)
        for model in ("b", "a")
        for rank, condition in enumerate(CONDITIONS)
        for place, split in enumerate((*TASKS, "all"))
    ]


def test_points_have_the_values_and_lines_the_intervals():
    figure = split_points(metric_frame(by_split("retention", "gp_irt")), NAMES, CONDITIONS, "gp_irt", "gp-IRT")
    assert [panel.get_title(loc="left") for panel in figure.axes] == ["Model A", "Model B"]
    panel = figure.axes[0]
    for rank, condition in enumerate(CONDITIONS):
        line = next(line for line in panel.lines if line.get_label() == condition)
        values = [0.5 + 0.01 * rank, 0.6 + 0.01 * rank]
        np.testing.assert_allclose(line.get_ydata(), values)
        assert to_hex(line.get_color()) == COLORS[condition].lower()
        ends = [segment[:, 1] for segment in panel.collections[rank].get_segments()]
        np.testing.assert_allclose(ends, [[value - 0.05, value + 0.05] for value in values])
