"""What all figures share: colours, style, fonts for any script, and drawing to files."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
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
COLORS = {"base": "#999999", "soft": "#0072B2", "hard": "#D55E00", "ssot": "#009E73", "constrained": "#CC79A7"}
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


def _by_condition(known: Mapping[str, str], further: Sequence[str], conditions: Sequence[str]) -> dict[str, str]:
    """A colour or marker of each condition: other conditions than ``known`` ones take ``further`` in their order."""
    others = (name for name in conditions if name not in known)
    return {**known, **dict(zip(others, itertools.cycle(further), strict=False))}


def condition_colors(conditions: Sequence[str]) -> dict[str, str]:
    """Colour by condition, baselines included."""
    return _by_condition(COLORS, FURTHER_COLORS, conditions)


def condition_markers(conditions: Sequence[str]) -> dict[str, str]:
    """Matplotlib's marker by condition, without baselines."""
    return _by_condition(CONDITION_MARKERS, FURTHER_MARKERS, conditions)


def side_by_side(number: int, distance: float, most: int = 3) -> list[float]:
    """Places of several marks around 0: ``distance`` apart, and closer where more than ``most`` share their room."""
    distance = min(distance, distance * most / number)
    return [(place - (number - 1) / 2) * distance for place in range(number)]


def panel_grid(
    number: int, columns: int, width: float, height: float, extra: float, **shared: bool
) -> tuple[Figure, list[Axes]]:
    """Panels of ``width`` by ``height`` inches, filled line by line, and a height ``extra`` for what all share."""
    columns = min(columns, number)
    lines = -(-number // columns)
    size = (max(5.6, width * columns), extra + height * lines)
    figure, grid = plt.subplots(lines, columns, figsize=size, squeeze=False, layout="constrained", **shared)
    panels = list(grid.flatten())
    for panel in panels[number:]:
        panel.set_axis_off()
    return figure, panels[:number]


def shared_legend(figure: Figure, panels: Iterable[Axes], most_columns: int = 5) -> None:
    """One legend below all panels, with the entries of any of them."""
    entries = {}
    for panel in panels:
        handles, labels = panel.get_legend_handles_labels()
        entries.update(zip(labels, handles, strict=True))
    if entries:
        columns = min(most_columns, len(entries))
        figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=columns)


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
    """How a figure is drawn: a function, whose result None leaves the figure out, and its arguments."""

    function: Callable[..., Figure | None]
    arguments: tuple[Any, ...]
    caption: str


def draw(name: str, drawing: Drawing, directory: Path) -> bool:
    """Write ``NAME.png`` and ``NAME.pdf`` into a directory; whether there was anything to draw."""
    figure = drawing.function(*drawing.arguments)
    if figure is None:
        return False
    figure.set_dpi(200)
    if (engine := figure.get_layout_engine()) is not None:
        # Here, once: with an engine, each file would be drawn twice, first for the layout.
        engine.execute(figure)
        figure.set_layout_engine(None)
    figure.savefig(directory / f"{name}.png", dpi=200)
    figure.savefig(directory / f"{name}.pdf", metadata={"CreationDate": None})
    plt.close(figure)
    return True


def draw_all(drawings: Mapping[str, Mapping[str, Drawing]], directory: Path) -> dict[str, list[str]]:
    """Draw all figures, by section and file name, into a directory; the names of those with something to draw."""
    return {
        section: [name for name, drawing in members.items() if draw(name, drawing, directory)]
        for section, members in drawings.items()
    }
