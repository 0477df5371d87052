"""Interactive panels of calibration against what it costs: a point per model and condition, a link to its row."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from pipeline.axes.registry import METRICS
from pipeline.config.methods import MethodConfig
from pipeline.config.params import BASE
from pipeline.record.provenance import split_sources
from pipeline.report.across_axes.frontier import CALIBRATION_TITLE, FRONTIER_TABLE, frontier_points, scale_families
from pipeline.report.figures.drawing import condition_colors
from pipeline.report.page.plots import Plot, condition_symbols, error_bars, vertical_line
from pipeline.report.tables.table import interval_text


def frontier_plots(metrics: pd.DataFrame, models: Mapping[str, str], methods: Mapping[str, MethodConfig]) -> list[Plot]:
    """One plot per quantity that is kept or carries over, of all models.

    Args:
        metrics: The tidy metrics table.
        models: Model name -> display name, in order.
        methods: What is trained or merged, by name, in order.
    """
    conditions = (BASE, *methods)
    points = frontier_points(metrics, models, conditions)
    joined = [family for family in scale_families(methods).values() if len(family) > 2]
    plots = []
    for metric, own in points.groupby("metric", sort=False):
        metric = METRICS[str(metric)]
        figure = {
            "data": [*_lines(own, joined), *_points(own, models, conditions)],
            "layout": _layout(own, metric.unit),
        }
        sources = dict.fromkeys(path for paths in own["provenance"] for path in split_sources(paths))
        title = f"{metric.title}, {metric.direction} is better"
        plots.append(Plot(f"frontier-{metric.name}", title, figure, sources=list(sources)))
    return plots


def _points(own: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]) -> list[dict[str, Any]]:
    """One condition each, in front of the lines."""
    colors, symbols, traces = condition_colors(conditions), condition_symbols(conditions), []
    for condition in conditions:
        rows = list(own[own["condition"] == condition].itertuples())
        if not rows:
            continue
        texts = [
            f"{models[row.model]}, {condition}<br>{row.x:.3g} times a perfect sampler's W1<br>"
            f"{row.title} {row.y:.4g} {interval_text(row.y_low, row.y_high, METRICS[row.metric].decimals, '')}"
            f"<br>n = {row.n:,}" + (f"<br>dominated by {row.dominated_by}" if row.dominated_by else "")
            for row in rows
        ]
        shades = ["muted" if row.dominated_by else colors[condition] for row in rows]
        marks = [symbols[condition] + ("-open" if row.dominated_by else "") for row in rows]
        # One colour of bars per trace: plotly has no list of them.
        bars = shades[0] if len(set(shades)) == 1 else "muted"
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": condition,
                "x": [row.x for row in rows],
                "y": [row.y for row in rows],
                "customdata": [f"{FRONTIER_TABLE}-{row.model}-{condition}" for row in rows],
                "text": texts,
                "hoverinfo": "text",
                "marker": {"color": shades, "symbol": marks, "size": 10},
                "error_x": error_bars([(row.x, row.x_low, row.x_high) for row in rows], bars, thickness=1),
                "error_y": error_bars([(row.y, row.y_low, row.y_high) for row in rows], bars, thickness=1),
            }
        )
    return traces


def _lines(own: pd.DataFrame, joined: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """Thin lines through the conditions of each family and model."""
    traces = []
    for family in joined:
        for _, members in own.groupby("model", sort=False):
            rows = members.set_index("condition")
            present = [name for name in family if name in rows.index]
            if len(present) > 2:
                traces.append(
                    {
                        "type": "scatter",
                        "mode": "lines",
                        "x": rows.loc[present, "x"].tolist(),
                        "y": rows.loc[present, "y"].tolist(),
                        "hoverinfo": "skip",
                        "showlegend": False,
                        "line": {"color": "muted", "width": 1},
                    }
                )
    return traces


def _layout(own: pd.DataFrame, unit: str) -> dict[str, Any]:
    """Axes, a perfect sampler and, of one model, base."""
    base = own[own["condition"] == BASE]
    shapes = [vertical_line(1, dash="dot")]
    if own["model"].nunique() == 1 and len(base):
        level = float(base["y"].iloc[0])
        line = {"color": "muted", "width": 1, "dash": "dash"}
        shapes.append({"type": "line", "x0": 0, "x1": 1, "xref": "paper", "y0": level, "y1": level, "line": line})
    return {
        "height": 300,
        "xaxis": {"title": {"text": CALIBRATION_TITLE}},
        "yaxis": {"title": {"text": unit}},
        "showlegend": True,
        "shapes": shapes,
    }
