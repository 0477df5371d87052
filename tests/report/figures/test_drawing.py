"""Drawing in several processes gives what drawing here gives."""

import sys

import psutil
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from pipeline.report.figures.drawing import (
    COLORS,
    CONDITION_MARKERS,
    FURTHER_COLORS,
    Drawing,
    condition_colors,
    condition_markers,
    draw,
    draw_all,
    shared_legend,
)
from tests.waiting import wait_until


def line(values):
    """A figure; None without values. A function of a module, as other processes need it."""
    if not values:
        return None
    figure, axis = plt.subplots(figsize=(2, 2), layout="constrained")
    axis.plot(values)
    return figure


DRAWINGS = {
    "first": {"a": Drawing(line, ([1, 2],), "A"), "none": Drawing(line, ([],), "nothing")},
    "empty": {},
    "second": {"b": Drawing(line, ([2, 1],), "B", mark="a mark")},
}


def test_processes_draw_the_same_figures_in_order(tmp_path):
    for processes in (1, 2):
        directory = tmp_path / str(processes)
        directory.mkdir()
        assert draw_all(DRAWINGS, directory, processes) == {"first": ["a"], "empty": [], "second": ["b"]}
    names = {path.name for path in (tmp_path / "1").iterdir()}
    assert names == {"a.png", "a.pdf", "b.png", "b.pdf"} == {path.name for path in (tmp_path / "2").iterdir()}
    for name in names:
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


def test_a_mark_is_in_the_picture_and_nothing_lies_under_it(tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(plt, "close", kept.append)
    assert draw("b", DRAWINGS["second"]["b"], tmp_path)
    (figure,) = kept
    assert isinstance(figure, Figure)
    (mark,) = figure.texts
    assert mark.get_text() == "a mark"
    renderer = figure.canvas.get_renderer()
    assert figure.axes[0].get_tightbbox(renderer).y1 <= mark.get_window_extent(renderer).y0 + 1
    monkeypatch.undo()
    plt.close("all")


SLOW = """
import time
from pathlib import Path
from pipeline.report.figures.drawing import Drawing, draw_all
def begin(name):
    Path(name).touch()
    time.sleep(600)
if __name__ == "__main__":
    drawings = {name: Drawing(begin, (name,), "") for name in ("first", "second")}
    draw_all({"slow": drawings}, Path("."), 2)
"""


def test_no_process_outlives_a_killed_report(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    # As a module, which is loaded once for all that draw.
    parent = psutil.Popen([sys.executable, "-m", "slow"], cwd=tmp_path)
    wait_until(lambda: all((tmp_path / name).exists() for name in ("first", "second")), parent)
    others = parent.children(recursive=True)
    parent.kill()
    parent.wait()
    _, alive = psutil.wait_procs(others, timeout=600)
    # The two that draw, and the one that they were forked from.
    assert len(others) >= 3 and not alive


def test_further_methods_have_looks_of_their_own_in_the_configured_order():
    methods = ("anchored", "soft", "merged", "hard", *(f"m{number}" for number in range(9)))
    colors, markers = condition_colors(("base", *methods)), condition_markers(("base", *methods))
    assert {name: colors[name] for name in COLORS} == COLORS
    assert {name: markers[name] for name in CONDITION_MARKERS} == CONDITION_MARKERS
    further = [name for name in methods if name not in ("soft", "hard")]
    # More methods than colours: these come again, with other markers.
    assert [colors[name] for name in further] == [*FURTHER_COLORS, *FURTHER_COLORS, FURTHER_COLORS[0]]
    assert len({(colors[name], markers[name]) for name in methods}) == len(methods)


@pytest.mark.parametrize(("names", "columns"), [(3, 3), (9, 5)])
def test_a_legend_is_as_wide_as_the_figure_at_most(names, columns):
    figure, axis = plt.subplots(figsize=(5, 2), layout="constrained")
    for number in range(names):
        axis.plot([number], label=f"method {number}")
    shared_legend(figure, [axis])
    (legend,) = figure.legends
    assert len(legend.get_texts()) == names and legend._ncols <= columns
    figure.draw_without_rendering()
    assert all(text.get_window_extent().x1 <= figure.bbox.width for text in legend.get_texts())
    plt.close(figure)
