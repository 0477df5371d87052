"""Figures drawn and saved by several processes: most of the time that a report takes."""

import multiprocessing
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib import pyplot as plt
from matplotlib.figure import Figure

MARK_SIZE = 5.5
"""Points; of the line that says that a figure is the demo's."""


@dataclass(frozen=True)
class Drawing:
    """How a figure is drawn.

    Attributes:
        function: Draws it from ``arguments``; a function of a module, which another process can import. None as its
            result leaves the figure out.
        arguments: Its arguments.
        caption: The figure's caption.
        mark: A line at the upper right of the figure, empty for none.
    """

    function: Callable[..., Figure | None]
    arguments: tuple[Any, ...]
    caption: str
    mark: str = ""


def draw(name: str, drawing: Drawing, directory: Path) -> bool:
    """Write ``NAME.png`` and ``NAME.pdf`` into a directory; whether there was anything to draw."""
    figure = drawing.function(*drawing.arguments)
    if figure is None:
        return False
    if drawing.mark:
        _mark(figure, drawing.mark)
    figure.savefig(directory / f"{name}.png", dpi=200)
    # The layout stays; to compute it again takes as long as drawing.
    figure.set_layout_engine("none")
    figure.savefig(directory / f"{name}.pdf", metadata={"CreationDate": None})
    plt.close(figure)
    return True


def _mark(figure: Figure, text: str) -> None:
    """A line of small print above everything else, which is moved down for it."""
    engine, height = figure.get_layout_engine(), figure.get_figheight()
    share = 1.6 * MARK_SIZE / 72 / height
    if engine is not None:
        engine.set(rect=(0, 0, 1, 1 - share))
    figure.text(0.995, 1 - share / 4, text, fontsize=MARK_SIZE, ha="right", va="top", color="#666666", in_layout=False)


def _end_with_parent() -> None:
    """Let this process end when the one that started it was killed; it would wait for work forever."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def draw_all(
    drawings: Mapping[str, Mapping[str, Drawing]], directory: Path, processes: int | None = None
) -> dict[str, list[str]]:
    """Draw all figures, several at a time.

    Args:
        drawings: By section and file name without suffix.
        directory: Where to.
        processes: Processes at once; None takes one per core that this one may use, at most one per figure, and
            with one all is drawn here.

    Returns:
        Names of the figures that there was something to draw for, by section in the given order.
    """
    names = [(section, name) for section, members in drawings.items() for name in members]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    number = min(cores if processes is None else processes, max(1, len(names)))
    tasks = [(name, drawings[section][name], directory) for section, name in names]
    if number == 1:
        drawn = [draw(*task) for task in tasks]
    else:
        # Not forked: Arrow's and BLAS's threads do not survive a fork.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(number, mp_context=context, initializer=_end_with_parent) as pool:
            drawn = list(pool.map(draw, *zip(*tasks, strict=True)))
    found: dict[str, list[str]] = {section: [] for section in drawings}
    for (section, name), exists in zip(names, drawn, strict=True):
        if exists:
            found[section].append(name)
    return found
