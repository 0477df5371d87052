"""The figure of calibration against what it costs: what is drawn, where, and in which colour."""

import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex

from pipeline.report.across_axes.frontier import frontier_points
from pipeline.report.across_axes.frontier_figures import DOMINATED_COLOR, frontier_drawings, frontier_panels
from pipeline.report.figures.drawing import COLORS
from tests.report.conftest import metric_frame, metric_row, sampled, with_methods

MODELS = {"alpha": "Alpha_1B", "beta": "Beta"}
CONDITIONS = ("base", "soft", "hard", "soft_half")
FAMILY = ["base", "soft_half", "soft"]


def metrics(models):
    """Hard is worse than half of soft in everything."""
    distances = {"base": 0.2, "soft": 0.08, "hard": 0.16, "soft_half": 0.12}
    divergences = {"base": 0.0, "soft": 0.4, "hard": 0.5, "soft_half": 0.1}
    rows = sampled({(model, name): value for model in models for name, value in distances.items()})
    for model in models:
        for name, value in divergences.items():
            rows.append(metric_row("anchors", model, name, "all", "anchor_kl_nats", value))
            rows.append(metric_row("mcq", model, name, "mcq", "mcq_parse_rate", 1 - value))
    return metric_frame(rows)


@pytest.fixture
def panels():
    """Panels of one model."""
    figure = frontier_panels(frontier_points(metrics(["alpha"]), MODELS, CONDITIONS), MODELS, CONDITIONS, [FAMILY])
    yield [panel for panel in figure.axes if panel.axison]
    plt.close(figure)


def drawn(panel):
    """(x, y), colour and filling of every condition's point."""
    marks = [line for line in panel.lines if line.get_marker() not in ("None", "") and len(line.get_xdata())]
    return [
        ((line.get_xdata()[0], line.get_ydata()[0]), line.get_color(), to_hex(line.get_markerfacecolor()))
        for line in marks
    ]


def test_points_lines_and_intervals(panels):
    panel, questions = panels
    found = drawn(panel)
    assert [place for place, *_ in found] == pytest.approx([(10, 0), (4, 0.4), (8, 0.5), (6, 0.1)])
    assert found[1][1:] == (COLORS["soft"], COLORS["soft"].lower()) and found[2][1:] == (DOMINATED_COLOR, "#ffffff")
    # Base as a line over the whole panel; its family from base to the whole adapter.
    dashed, joined = panel.lines[0], panel.lines[1]
    assert dashed.get_linestyle() == "--" and list(dashed.get_ydata()) == [0, 0]
    assert joined.get_xdata().tolist() == pytest.approx([10, 6, 4])
    spans = [tuple(path.vertices[:, 0]) for bars in panel.collections for path in bars.get_paths()]
    assert spans[0] == pytest.approx((9.5, 10.5)) and spans[1] == pytest.approx((10, 10))
    # More questions are better.
    assert drawn(questions)[2][1] == DOMINATED_COLOR
    assert questions.get_ylabel() == "Parse rate" or "pars" in questions.get_ylabel().lower()
    names = panel.figure.legends[0].get_texts()
    assert [text.get_text() for text in names] == list(CONDITIONS)


def test_several_models_have_a_line_of_panels_each():
    points = frontier_points(metrics(list(MODELS)), MODELS, CONDITIONS)
    figure = frontier_panels(points, MODELS, CONDITIONS, [FAMILY])
    assert [panel.get_title(loc="left") for panel in figure.axes] == ["Alpha_1B", "", "Beta", ""]
    assert [bool(panel.get_xlabel()) for panel in figure.axes] == [False, False, True, True]
    plt.close(figure)


def test_nothing_to_draw_is_no_figure(tmp_path, two_models):
    params = with_methods(two_models, tmp_path / "params.yaml", "soft", "soft_half", "hard")
    assert frontier_drawings(params, metric_frame([])) == {}
    drawing = frontier_drawings(params, metrics(["alpha"]))["frontier"]
    assert FAMILY in drawing.arguments[-1] and "dominated" in drawing.caption
