"""What all figures share: style, colours, and fonts for text that may be in any script."""

from collections.abc import Iterable
from functools import cache

import matplotlib

matplotlib.use("Agg")
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.report.tables.table_text import shorten

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
# Paul Tol's muted colours, for model families: other hues than the conditions'.
FAMILY_COLORS = ("#332288", "#CC6677", "#117733", "#AA4499", "#999933", "#88CCEE", "#882255", "#DDCC77")
MARKERS = ("o", "^", "s", "D", "v", "P", "X", "<", ">", "*")
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


def shared_legend(figure: Figure, panels: Iterable[Axes], most_columns: int | None = None) -> None:
    """One legend below all panels: an entry may be in any of them. ``most_columns`` of None puts all in one row."""
    entries = {}
    for panel in panels:
        handles, labels = panel.get_legend_handles_labels()
        entries.update(zip(labels, handles, strict=True))
    if entries:
        columns = len(entries) if most_columns is None else min(most_columns, len(entries))
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
    """One short line in which a character that no installed font has is written as its code, e.g. "\\u4eac".

    Args:
        text: Any text.
        limit: Most characters before codes are written out.
    """
    return "".join(
        character if _has_glyph(character) else character.encode("ascii", "backslashreplace").decode()
        for character in shorten(text, limit)
    )
