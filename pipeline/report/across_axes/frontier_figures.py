"""Figure of calibration against what it costs: a point per condition, dominated ones grey."""

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.axes.registry import METRICS
from pipeline.config.params import BASE, Params
from pipeline.report.across_axes.frontier import CALIBRATION_TITLE, frontier_points, scale_families
from pipeline.report.evaluations import display_names, rows_of
from pipeline.report.figures.drawing import (
    STYLE,
    Drawing,
    condition_colors,
    condition_markers,
    panel_grid,
    shared_legend,
)

DOMINATED_COLOR = "#c4c4c4"
MOST_COLUMNS = 3
"""Of the panels of one model; several models have a line of panels each."""


def frontier_drawings(params: Params, metrics: pd.DataFrame) -> dict[str, Drawing]:
    """The figure by its file name; drawn where W1 and a quantity were evaluated."""
    models, conditions = display_names(params), params.conditions
    points = frontier_points(metrics, models, conditions)
    if points.empty:
        return {}
    caption = (
        "Calibration against what it costs. Horizontal: W1 over what a perfect sampler of as many answers scores, mean "
        "of held-out families and unseen parameters; farther left is better. Vertical: what is kept of the base "
        "checkpoint, and what carries over. Open and grey: dominated, another condition is no worse in both and better "
        "in one. Dashed: base. Thin lines join base, the scaled versions of an adapter, and the adapter. Bars: 95% "
        "intervals of each condition alone."
    )
    arguments = (points, models, conditions, list(scale_families(params.methods).values()))
    return {"frontier": Drawing(frontier_panels, arguments, caption)}


def frontier_panels(
    points: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str], families: Sequence[Sequence[str]]
) -> Figure:
    """One panel per model and quantity of ``frontier_points``; lines join the conditions of a family, in its order."""
    shown, metrics = [name for name in models if (points["model"] == name).any()], list(dict.fromkeys(points["metric"]))
    columns = min(MOST_COLUMNS, len(metrics)) if len(shown) == 1 else len(metrics)
    places = [(model, metric) for model in shown for metric in metrics]
    with plt.rc_context(STYLE):
        figure, panels = panel_grid(len(places), columns, 2.4, 2.0, 0.9)
        for panel, (model, metric) in zip(panels, places, strict=True):
            own = rows_of(points, model=model, metric=metric).set_index("condition")
            _draw(panel, own, conditions, families)
            panel.set_ylabel(METRICS[metric].title, parse_math=False)
            if len(shown) > 1 and metric == metrics[0]:
                panel.set_title(models[model], loc="left", parse_math=False)
        # Of a column that ends early, too, the lowest panel names the axis.
        for panel in panels[-columns:]:
            panel.set_xlabel(CALIBRATION_TITLE)
        shared_legend(figure, panels)
    return figure


def _draw(panel: Axes, own: pd.DataFrame, conditions: Sequence[str], families: Sequence[Sequence[str]]) -> None:
    """The points of one model and quantity, indexed by condition."""
    colors, markers = condition_colors(conditions), condition_markers(conditions)
    if BASE in own.index:
        panel.axhline(own.loc[BASE, "y"], color=colors[BASE], linewidth=0.7, linestyle="--", zorder=1)
    for family in families:
        joined = own.loc[[name for name in family if name in own.index]]
        if len(family) > 2 and len(joined) > 2:
            panel.plot(joined["x"], joined["y"], color="#777777", linewidth=0.6, zorder=1)
    for condition in (name for name in conditions if name in own.index):
        row = own.loc[condition]
        color = DOMINATED_COLOR if row["dominated_by"] else colors[condition]
        panel.hlines(row["y"], row["x_low"], row["x_high"], color=color, linewidth=0.9, zorder=2)
        panel.vlines(row["x"], row["y_low"], row["y_high"], color=color, linewidth=0.9, zorder=2)
        look = {"marker": markers[condition], "markersize": 4.5, "linestyle": "", "zorder": 3}
        panel.plot(row["x"], row["y"], color=color, markerfacecolor="white" if row["dominated_by"] else color, **look)
        # The legend has the colour of a condition also where all its points are grey.
        panel.plot([], [], color=colors[condition], label=condition, **look)
    panel.grid(color="#eeeeee", linewidth=0.5)
    panel.set_axisbelow(True)
