"""What all figures share: colours, style, fonts for any script, and drawing in several processes."""

import itertools
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import font_manager
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.core.laws.families import FAMILIES
from pipeline.core.prompts.structured import Prompt
from pipeline.report.table_text import shorten

# Okabe and Ito's colours, distinguishable with colour-blindness and in grey print.
COLORS = {
    "base": "#999999",
    "soft": "#0072B2",
    "hard": "#D55E00",
    "ssot": "#009E73",
    "constrained": "#CC79A7",
    "batch": "#E69F00",
    "verbalized": "#56B4E9",
}
FURTHER_COLORS = ("#E69F00", "#56B4E9", "#CC79A7", "#F0E442", "#009E73")
"""Of methods beside soft and hard: the same palette, the colour of ssot last, because it is often beside them."""
# Paul Tol's muted colours, for model families: other hues than the conditions'.
FAMILY_COLORS = ("#332288", "#CC6677", "#117733", "#AA4499", "#999933", "#88CCEE", "#882255", "#DDCC77")
MARKERS = ("o", "^", "s", "D", "v", "P", "X", "<", ">", "*")
CONDITION_MARKERS = {"base": "o", "soft": "^", "hard": "s"}
FURTHER_MARKERS = ("D", "v", "P", "X", "<", ">", "*")
TARGET_COLOR = "#000000"
STYLE = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
    "legend.frameon": False,
    "hatch.linewidth": 0.6,
    "svg.hashsalt": "calibration",
}
_FALLBACKS = ("Noto Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Zen Hei", "Noto Emoji", "Unifont")
MARK_SIZE = 5.5
"""Points; of the line that says that a figure is the demo's."""


def by_condition(known: Mapping[str, str], further: Sequence[str], conditions: Sequence[str]) -> dict[str, str]:
    """A colour or marker of each condition, the same in every figure of a report.

    ``known`` ones never change; all other conditions take ``further`` in their order, again and again.
    """
    others = (name for name in conditions if name not in known)
    return {**known, **dict(zip(others, itertools.cycle(further), strict=False))}


def condition_colors(conditions: Sequence[str]) -> dict[str, str]:
    """Colour by condition, baselines included."""
    return by_condition(COLORS, FURTHER_COLORS, conditions)


def condition_markers(conditions: Sequence[str]) -> dict[str, str]:
    """Matplotlib's marker by condition, without baselines."""
    return by_condition(CONDITION_MARKERS, FURTHER_MARKERS, conditions)


def side_by_side(number: int, distance: float, most: int = 3) -> list[float]:
    """Places of several marks around 0: ``distance`` apart, and closer where more than ``most`` share their room."""
    distance = min(distance, distance * most / number)
    return [(place - (number - 1) / 2) * distance for place in range(number)]


def panel_grid(
    number: int, columns: int, width: float, height: float, extra: float, **shared: bool
) -> tuple[Figure, list[Axes]]:
    """A figure with a number of panels of ``width`` by ``height`` inches, filled line by line; the rest is off.

    ``extra`` is the height for what all panels share; ``shared`` has ``sharex`` and ``sharey``.
    """
    columns = min(columns, number)
    lines = -(-number // columns)
    size = (max(5.6, width * columns), extra + height * lines)
    figure, grid = plt.subplots(lines, columns, figsize=size, squeeze=False, layout="constrained", **shared)
    panels = list(grid.flatten())
    for panel in panels[number:]:
        panel.set_axis_off()
    return figure, panels[:number]


def shared_legend(figure: Figure, panels: Iterable[Axes], most_columns: int | None = None) -> None:
    """One legend below all panels, with the entries of any of them, in as many columns as fit."""
    entries = {}
    for panel in panels:
        handles, labels = panel.get_legend_handles_labels()
        entries.update(zip(labels, handles, strict=True))
    for number in range(min(most_columns or len(entries), len(entries)), 0, -1):
        legend = figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=number)
        # Its frame is not drawn, so that the padding inside of it may be cut.
        padding = 2 * legend.borderpad * legend.get_texts()[0].get_fontsize() * figure.dpi / 72
        if number == 1 or legend.get_window_extent().width - padding <= figure.bbox.width:
            break
        legend.remove()


@cache
def font_families() -> tuple[str, ...]:
    """Matplotlib's own font, then those installed that cover further scripts."""
    installed = {font.name for font in font_manager.fontManager.ttflist}
    return ("DejaVu Sans", *(name for name in _FALLBACKS if name in installed))


@cache
def _has_glyph(character: str) -> bool:
    paths = (font_manager.findfont(name) for name in font_families())
    return any(font_manager.get_font(path).get_char_index(ord(character)) for path in paths)


def drawable(text: str, limit: int) -> str:
    """At most ``limit`` characters in one line; one that no installed font has is written as its code ("\\u4eac")."""
    return "".join(
        character if _has_glyph(character) else character.encode("ascii", "backslashreplace").decode()
        for character in shorten(text, limit)
    )


def law_title(prompt: Prompt) -> str:
    """A law as a title: its family and parameters, e.g. "Poisson(lambda=4)"."""
    parameters = ", ".join(f"{name}={value:g}" for name, value in prompt.parameters.items())
    return f"{FAMILIES[prompt.family].display_name}({parameters})"


@dataclass(frozen=True)
class Drawing:
    """How a figure is drawn: a function of a module, whose result None leaves the figure out, and its arguments.

    ``mark`` is a line at the upper right of the figure, empty for none.
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
    engine = figure.get_layout_engine()
    if drawing.mark:
        # Above everything else, which is moved down for it.
        share = 1.6 * MARK_SIZE / 72 / figure.get_figheight()
        if engine is not None:
            engine.set(rect=(0, 0, 1, 1 - share))
        look = {"fontsize": MARK_SIZE, "ha": "right", "va": "top", "color": "#666666", "in_layout": False}
        figure.text(0.995, 1 - share / 4, drawing.mark, **look)
    figure.set_dpi(200)
    if engine is not None:
        # Here, once: with an engine, each file would be drawn twice, first for the layout.
        engine.execute(figure)
        figure.set_layout_engine(None)
    figure.savefig(directory / f"{name}.png", dpi=200)
    figure.savefig(directory / f"{name}.pdf", metadata={"CreationDate": None})
    plt.close(figure)
    return True


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
    """Draw all figures, by section and file name, into a directory: as many at a time as there are cores, or
    ``processes``.

    Returns:
        Names of the figures that there was something to draw for, by section in the given order.
    """
    tasks = [(name, drawing, directory) for members in drawings.values() for name, drawing in members.items()]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    number = min(cores if processes is None else processes, max(1, len(tasks)))
    if number == 1:
        drawn = [draw(*task) for task in tasks]
    else:
        # Not forked from here: Arrow's and BLAS's threads do not survive a fork. Forked from a process that has loaded,
        # once for all, what drawing takes, which takes longer than most figures.
        context = multiprocessing.get_context("forkserver")
        started = sys.modules["__main__"].__spec__
        modules = {drawing.function.__module__ for _, drawing, _ in tasks} | ({started.name} if started else set())
        context.set_forkserver_preload(sorted(modules))
        with ProcessPoolExecutor(number, mp_context=context, initializer=_end_with_parent) as pool:
            drawn = list(pool.map(draw, *zip(*tasks, strict=True)))
    exists = iter(drawn)
    return {section: [name for name in members if next(exists)] for section, members in drawings.items()}
