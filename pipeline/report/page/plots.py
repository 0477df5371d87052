"""The forest plots of the page's first screen: plotly figures as plain dictionaries."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from pipeline.axes.registry import SPLIT_TITLES
from pipeline.config.evaluation import BASELINES
from pipeline.report.across_axes.frontier import BITS_PER_BYTE, W1
from pipeline.report.evaluations import ReportContext, rows_of
from pipeline.report.figures.drawing import by_condition, condition_colors

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


class Plot(NamedTuple):
    """A figure with ``data`` and ``layout`` of plotly.

    The page sets fonts and neutral colours, so that it follows the reader's light or dark scheme.
    """

    name: str
    title: str
    figure: Mapping[str, Any]


class ForestPanel(NamedTuple):
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


def forest_plots(context: ReportContext) -> list[Plot]:
    """W1 on both splits, and benchmarks and text against base, as far as they were run."""
    lower, tests = "lower is better", context.params.tests
    panels = [
        ForestPanel(f"forest-{split}", f"W1, {name}", "structured", split, W1, f"W1, {lower}")
        for split, name in SPLIT_TITLES.items()
    ]
    reported = set(context.metrics["metric"])
    text = next((metric for metric in BITS_PER_BYTE if metric in reported), BITS_PER_BYTE[0])
    unit, margin = "gp-IRT − base, higher is better", tests.accuracy_margin
    names = ("forest-retention", "TinyBenchmarks against base", "retention")
    panels += [
        ForestPanel(*names, "all", "gp_irt_difference", unit, True, margin),
        ForestPanel("forest-paloma", "Held-out text", "paloma", "all", text, f"bits/byte, {lower}"),
    ]
    plots = (forest_plot(panel, context.metrics, context.names, context.conditions) for panel in panels)
    return [plot for plot in plots if plot is not None]


def forest_plot(
    panel: ForestPanel, metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]
) -> Plot | None:
    """Value, 95% interval and, where there is one, the perfect sampler's value of each model and condition.

    Models are from top to bottom and so are their conditions, baselines below them. None where no value is defined.
    """
    rows = rows_of(metrics, axis=panel.axis, split=panel.split, family="", metric=panel.metric)
    rows = rows[(rows["value"].abs() < math.inf) & rows["model"].isin(models)]
    present = [name for name in (*conditions, *BASELINES) if (rows["condition"] == name).any()]
    if not present:
        return None
    # With several models, those without any value keep their empty rows: panels beside each other agree.
    keys = [(model, condition) for model in [*models] for condition in [*present, ""]]
    places = {key: place for place, key in enumerate(keys)}
    rows = rows[rows["condition"].isin(present)]
    rows = rows.assign(place=[places[key] for key in zip(rows["model"], rows["condition"], strict=True)])
    rows = rows.sort_values("place")
    colors, symbols = condition_colors(conditions), by_condition(SYMBOLS, FURTHER_SYMBOLS, conditions)
    traces = []
    for condition in present:
        members = rows_of(rows, condition=condition)
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
    return Plot(panel.name, panel.title, figure)


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
    whole = {"y0": 0, "y1": 1, "yref": "paper"}
    area = {"fillcolor": "rgba(128,128,128,0.22)", "line": {"width": 0}, "layer": "below"}
    margin = {"type": "rect", "x0": -panel.margin, "x1": panel.margin, **area, **whole}
    zero = {"type": "line", "x0": 0, "x1": 0, "line": {"color": "ink", "width": 1}, **whole}
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
        "shapes": [*([margin] if math.isfinite(panel.margin) else []), zero] if panel.difference else [],
    }
