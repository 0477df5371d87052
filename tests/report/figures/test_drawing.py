"""Drawing in several processes gives what drawing here gives."""

import sys

import psutil
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from pipeline.report.figures.drawing import Drawing, draw, draw_all
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
    parent = psutil.Popen([sys.executable, "slow.py"], cwd=tmp_path)
    wait_until(lambda: all((tmp_path / name).exists() for name in ("first", "second")), parent)
    workers = [child for child in parent.children() if "--multiprocessing-fork" in child.cmdline()]
    parent.kill()
    parent.wait()
    _, alive = psutil.wait_procs(workers, timeout=600)
    assert len(workers) == 2 and not alive
