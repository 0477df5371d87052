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
ROW_PIXELS = 24
DENSE_ROW_PIXELS = 11


def condition_symbols(conditions: Sequence[str]) -> dict[str, str]:
    """Plotly's marker by condition, baselines included."""
    return by_condition(SYMBOLS, FURTHER_SYMBOLS, conditions)


@dataclass(frozen=True)
class Plot:
    """A figure that the page draws with plotly.js.

    ``figure`` has ``data`` and ``layout`` of plotly as JSON values. The page sets fonts and neutral colours, so that it
    follows the reader's light or dark scheme. ``sources`` are the provenance files of the numbers.
    """

    name: str
    title: str
    figure: Mapping[str, Any]
    note: str = ""
    sources: Sequence[str] = field(default=())


@dataclass(frozen=True)
class ForestPanel:
    """What one forest plot shows: its name and title, the rows of the metrics table, and the horizontal axis.

    A panel of differences has a line at 0, "as base"; differences within ``margin`` count as none (NaN: no margin).
    """

    name: str
    title: str
    axis: str
    split: str
    metric: str
    unit: str
    difference: bool = False
    margin: float = math.nan


def forest_plots(
    metrics: pd.DataFrame,
    models: Mapping[str, str],
    conditions: Sequence[str],
    bits_per_byte: str,
    margins: Mapping[str, float],
) -> list[Plot]:
    """The first screen's plots: W1 on both splits, and benchmarks and text against base, as far as they were run.

    ``bits_per_byte`` is the metric's name (with or without BOS), ``margins`` has differences that count as none.
    """
    w1, lower = "wasserstein_1_normalised", "lower is better"
    panels = [
        ForestPanel(f"forest-{split}", f"W1, {name}", "structured", split, w1, f"W1, {lower}")
        for split, name in SPLIT_TITLES.items()
    ]
    for axis, title, metric, unit in (
        ("retention", "TinyBenchmarks against base", "gp_irt", "gp-IRT − base, higher is better"),
        ("paloma", "Held-out text against base", bits_per_byte, f"bits/byte − base, {lower}"),
    ):
        metric = difference_from_base(metric)
        panels.append(ForestPanel(f"forest-{axis}", title, axis, "all", metric, unit, True, margins[axis]))
    plots = (forest_plot(panel, metrics, models, conditions) for panel in panels)
    return [plot for plot in plots if plot is not None]


def forest_plot(
    panel: ForestPanel, metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]
) -> Plot | None:
    """Value, 95% interval and, where there is one, the perfect sampler's value of each model and condition.

    Models are from top to bottom and so are their conditions, baselines below them. None where no value is defined.
    """
    rows = rows_of(metrics, axis=panel.axis, split=panel.split, family="", metric=panel.metric)
    rows = rows[(rows["value"].abs() < math.inf) & rows["model"].isin(list(models))]
    evaluated = set(rows["condition"])
    everything = methods_of(conditions) if panel.difference else (*conditions, *BASELINES)
    present = [condition for condition in everything if condition in evaluated]
    if not present:
        return None
    # With several models, those without any value keep their empty rows: panels beside each other agree.
    pitch = len(present) + 1
    places = {
        (model, condition): index * pitch + place
        for index, model in enumerate(models)
        for place, condition in enumerate(present)
    }
    rows = rows[rows["condition"].isin(present)]
    keys = zip(rows["model"], rows["condition"], strict=True)
    rows = rows.assign(place=[places[key] for key in keys]).sort_values("place")
    colors, symbols, traces = condition_colors(conditions), condition_symbols(conditions), []
    for condition in present:
        members = rows[rows["condition"] == condition]
        texts = [
            f"{models[row.model]}, {condition}<br>{row.value:.4g} [{row.ci_low:.4g}, {row.ci_high:.4g}]"
            f"<br>n = {row.n:,}"
            for row in members.itertuples()
        ]
        marker = {"color": colors[condition], "symbol": symbols[condition], "size": 9}
        trace = _markers(condition, members["value"], members["place"], texts, marker)
        traces.append({**trace, "error_x": _error_bars(members, colors[condition])})
    floors = rows[rows["floor"].notna()]
    if len(floors):
        texts = [f"a perfect sampler: {floor:.4g}" for floor in floors["floor"]]
        size = 14 if len(models) == 1 else 9
        marker = {"symbol": "line-ns-open", "size": size, "color": "ink", "line": {"width": 2}}
        trace = _markers("perfect sampler", floors["floor"], floors["place"], texts, marker)
        traces.append({**trace, "showlegend": False})
    figure = {"data": traces, "layout": _layout(panel, list(models.values()), present)}
    return Plot(panel.name, panel.title, figure, sources=list(dict.fromkeys(rows["provenance"])))


def _markers(name: str, x: pd.Series, y: pd.Series, texts: Sequence[str], marker: Mapping[str, Any]) -> dict[str, Any]:
    trace = {"type": "scatter", "mode": "markers", "name": name, "x": x.tolist(), "y": y.tolist()}
    return {**trace, "text": texts, "hoverinfo": "text", "marker": marker}


def _error_bars(rows: pd.DataFrame, color: str) -> dict[str, Any]:
    """Plotly's bars of the rows' intervals; JSON's null where there is none."""
    lengths = {"array": rows["ci_high"] - rows["value"], "arrayminus": rows["value"] - rows["ci_low"]}
    bars = {
        side: [max(0.0, length) if math.isfinite(length) else None for length in found]
        for side, found in lengths.items()
    }
    return {"type": "data", "symmetric": False, "color": color, "thickness": 2, "width": 0, **bars}


def _layout(panel: ForestPanel, names: Sequence[str], conditions: Sequence[str]) -> dict[str, Any]:
    """Height, axes and marks of a forest plot: labels are the conditions of one model, or the models."""
    single, pitch = len(names) == 1, len(conditions) + 1
    count, middle = len(names) * pitch - 1, (len(conditions) - 1) / 2
    shapes = [band(-panel.margin, panel.margin)] if math.isfinite(panel.margin) else []
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
        "shapes": [*shapes, vertical_line(0)] if panel.difference else shapes,
    }


def band(low: float, high: float) -> dict[str, Any]:
    """A grey band from the bottom to the top of a plot, behind its points."""
    area = {"type": "rect", "x0": low, "x1": high, "y0": 0, "y1": 1, "yref": "paper", "layer": "below"}
    return {**area, "fillcolor": "rgba(128,128,128,0.22)", "line": {"width": 0}}


def vertical_line(x: float, dash: str = "") -> dict[str, Any]:
    """A thin line from the bottom to the top of a plot; ``dash`` is plotly's name of another than a full line."""
    line = {"color": "ink", "width": 1, **({"dash": dash} if dash else {})}
    return {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper", "line": line}
