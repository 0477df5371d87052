"""Interactive figures of the page: plotly figures as plain dictionaries, and the forest plots of its first screen."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from pipeline.axes.registry import SPLIT_TITLES
from pipeline.config.evaluation import BASELINES
from pipeline.report.evaluations import methods_of, rows_of
from pipeline.report.figures.drawing import by_condition, condition_colors
from pipeline.report.tables.retention import difference_from_base

SYMBOLS = {
    "base": "circle",
    "soft": "triangle-up",
    "hard": "square",
    "ssot": "diamond",
    "constrained": "cross",
    "batch": "x",
    "verbalized": "star",
}
"""Marker by condition, so that colour is not the only difference; as in the pictures."""
FURTHER_SYMBOLS = ("triangle-down", "pentagon", "hexagon", "bowtie", "hourglass", "triangle-left", "triangle-right")
DASHES = {
    "base": "solid",
    "soft": "solid",
    "hard": "dash",
    "ssot": "dot",
    "constrained": "dashdot",
    "batch": "longdash",
    "verbalized": "longdashdot",
}
"""Line by condition, as plotly names it."""
FURTHER_DASHES = ("8px,2px", "2px,2px,8px,2px", "12px,4px,4px,4px", "4px,2px", "10px,2px,2px,2px,2px,2px", "1px,4px")
ROW_PIXELS = 24
DENSE_ROW_PIXELS = 11


def condition_symbols(conditions: Sequence[str]) -> dict[str, str]:
    """Plotly's marker by condition, baselines included."""
    return by_condition(SYMBOLS, FURTHER_SYMBOLS, conditions)


def condition_dashes(conditions: Sequence[str]) -> dict[str, str]:
    """Plotly's kind of line by condition, baselines included."""
    return by_condition(DASHES, FURTHER_DASHES, conditions)


@dataclass(frozen=True)
class Plot:
    """A figure that the page draws with plotly.js.

    Attributes:
        name: Identifier within the page.
        title: Heading.
        figure: ``data`` and ``layout`` of plotly as JSON values. The page sets fonts and neutral colours, so that it
            follows the reader's light or dark scheme.
        note: What is shown, what the intervals are, and of how many.
        sources: Provenance files of the numbers.
    """

    name: str
    title: str
    figure: Mapping[str, Any]
    note: str = ""
    sources: Sequence[str] = field(default=())


@dataclass(frozen=True)
class ForestPanel:
    """What one forest plot shows.

    Attributes:
        name: Identifier within the page.
        title: Heading.
        axis, split, metric: The rows of the metrics table.
        unit: Title of the horizontal axis.
        difference: Whether 0 is "as base": draws a line there.
        margin: Differences within it count as none (NaN: no margin).
    """

    name: str
    title: str
    axis: str
    split: str
    metric: str
    unit: str
    difference: bool = False
    margin: float = math.nan


def forest_plot(
    panel: ForestPanel, metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]
) -> Plot | None:
    """Value, 95% interval and, where there is one, the perfect sampler's value of each model and condition.

    Args:
        panel: What is shown.
        metrics: The tidy metrics table.
        models: Model name -> display name, from top to bottom.
        conditions: Base and the methods, from top to bottom within a model; baselines come below them.

    Returns:
        The plot; None where no value is defined.
    """
    chosen = rows_of(metrics, axis=panel.axis, split=panel.split, family="", metric=panel.metric)
    rows = {(row.model, row.condition): row for row in chosen.itertuples() if math.isfinite(row.value)}
    everything = methods_of(conditions) if panel.difference else (*conditions, *BASELINES)
    present = [condition for condition in everything if any((model, condition) in rows for model in models)]
    if not present:
        return None
    # With several models, those without any value keep their empty rows: panels beside each other agree.
    pitch = len(present) + 1
    placed = [
        (index * pitch + place, name, condition, rows[model, condition])
        for index, (model, name) in enumerate(models.items())
        for place, condition in enumerate(present)
        if (model, condition) in rows
    ]
    colors, symbols = condition_colors(conditions), condition_symbols(conditions)
    traces = [
        _points(condition, [entry for entry in placed if entry[2] == condition], colors[condition], symbols[condition])
        for condition in present
    ]
    traces += _floors(placed, 14 if len(models) == 1 else 9)
    sources = list(dict.fromkeys(row.provenance for *_, row in placed))
    figure = {"data": traces, "layout": _layout(panel, list(models.values()), present)}
    return Plot(panel.name, panel.title, figure, sources=sources)


def _layout(panel: ForestPanel, names: Sequence[str], conditions: Sequence[str]) -> dict[str, Any]:
    """Height, axes and marks of a forest plot: labels are the conditions of one model, or the models."""
    single, pitch = len(names) == 1, len(conditions) + 1
    count, middle = len(names) * pitch - 1, (len(conditions) - 1) / 2
    return {
        "height": 74 + count * (ROW_PIXELS if single else DENSE_ROW_PIXELS),
        "xaxis": {"title": {"text": panel.unit}, "rangemode": "normal" if panel.difference else "tozero"},
        "yaxis": {
            "tickvals": list(range(count)) if single else [index * pitch + middle for index in range(len(names))],
            "ticktext": list(conditions if single else names),
            "range": [count - 0.4, -0.6],
            "automargin": True,
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
        },
        "showlegend": not single,
        "shapes": _shapes(panel),
    }


Placed = tuple[int, str, str, Any]
"""Place from the top, model's name, condition, and row of the metrics table."""


def _points(condition: str, members: Sequence[Placed], color: str, symbol: str) -> dict[str, Any]:
    """One condition's values with their intervals."""
    texts = [
        f"{name}, {condition}<br>{row.value:.4g} [{row.ci_low:.4g}, {row.ci_high:.4g}]<br>n = {row.n:,}"
        for _, name, _, row in members
    ]
    values = [row for *_, row in members]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": condition,
        "x": [row.value for row in values],
        "y": [place for place, *_ in members],
        "text": texts,
        "hoverinfo": "text",
        "marker": {"color": color, "symbol": symbol, "size": 9},
        "error_x": error_bars([(row.value, row.ci_low, row.ci_high) for row in values], color),
    }


def error_bars(intervals: Sequence[tuple[float, float, float]], color: str, thickness: int = 2) -> dict[str, Any]:
    """Plotly's bars of (value, low, high), NaN where there is no interval."""
    return {
        "type": "data",
        "symmetric": False,
        "color": color,
        "thickness": thickness,
        "width": 0,
        "array": [_reach(high - value) for value, _, high in intervals],
        "arrayminus": [_reach(value - low) for value, low, _ in intervals],
    }


def _reach(length: float) -> float | None:
    return max(0.0, length) if math.isfinite(length) else None


def _floors(placed: Sequence[Placed], size: int) -> list[dict[str, Any]]:
    """The perfect sampler's values as ticks, ``size`` pixels high, on the rows that have one."""
    found = [(row.floor, place) for place, _, _, row in placed if math.isfinite(row.floor)]
    if not found:
        return []
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": "perfect sampler",
            "x": [x for x, _ in found],
            "y": [y for _, y in found],
            "text": [f"a perfect sampler: {x:.4g}" for x, _ in found],
            "hoverinfo": "text",
            "showlegend": False,
            "marker": {"symbol": "line-ns-open", "size": size, "color": "ink", "line": {"width": 2}},
        }
    ]


def _shapes(panel: ForestPanel) -> list[dict[str, Any]]:
    shapes = [band(-panel.margin, panel.margin)] if math.isfinite(panel.margin) else []
    return [*shapes, vertical_line(0)] if panel.difference else shapes


def band(low: float, high: float) -> dict[str, Any]:
    """A grey band from the bottom to the top of a plot, behind its points."""
    return {
        "type": "rect",
        "x0": low,
        "x1": high,
        "y0": 0,
        "y1": 1,
        "yref": "paper",
        "fillcolor": "rgba(128,128,128,0.22)",
        "line": {"width": 0},
        "layer": "below",
    }


def vertical_line(x: float, dash: str = "") -> dict[str, Any]:
    """A thin line from the bottom to the top of a plot; ``dash`` is plotly's name of another than a full line."""
    line = {"color": "ink", "width": 1, **({"dash": dash} if dash else {})}
    return {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper", "line": line}


def _forest_panels(bits_per_byte: str, margins: Mapping[str, float]) -> list[ForestPanel]:
    """The first screen's four panels: W1 on both splits, and what became of the benchmarks and of text."""
    distances = [
        ForestPanel(
            f"forest-{split}", f"W1, {name}", "structured", split, "wasserstein_1_normalised", "W1, lower is better"
        )
        for split, name in SPLIT_TITLES.items()
    ]
    benchmarks = ForestPanel(
        "forest-retention",
        "TinyBenchmarks against base",
        "retention",
        "all",
        "gp_irt_difference",
        "gp-IRT − base, higher is better",
        difference=True,
        margin=margins["retention"],
    )
    text = ForestPanel(
        "forest-paloma",
        "Held-out text against base",
        "paloma",
        "all",
        difference_from_base(bits_per_byte),
        "bits/byte − base, lower is better",
        difference=True,
        margin=margins["paloma"],
    )
    return [*distances, benchmarks, text]


def forest_plots(
    metrics: pd.DataFrame,
    models: Mapping[str, str],
    conditions: Sequence[str],
    bits_per_byte: str,
    margins: Mapping[str, float],
) -> list[Plot]:
    """The first screen's plots of what was evaluated.

    Args:
        metrics: The tidy metrics table.
        models: Model name -> display name.
        conditions: Base and the methods, in order.
        bits_per_byte: The metric's name (with or without BOS).
        margins: Differences that count as none by axis.
    """
    plots = (forest_plot(panel, metrics, models, conditions) for panel in _forest_panels(bits_per_byte, margins))
    return [plot for plot in plots if plot is not None]
