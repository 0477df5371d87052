"""Figures of what fine-tuning keeps, by task or slice: metrics of each condition, and paired differences from base."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter, ScalarFormatter

from pipeline.report.evaluations import methods_of, rows_of
from pipeline.report.figures.drawing import (
    STYLE,
    TARGET_COLOR,
    condition_colors,
    condition_markers,
    panel_grid,
    shared_legend,
    side_by_side,
)

PANEL_COLUMNS = 3
MARGIN_NOTE = "Grey: the margin within which a difference counts as none. White: the tests cannot tell."


def _panels(models: Mapping[str, str], width: float, height: float, **shared: bool) -> tuple[Figure, list[Axes]]:
    """One panel per model, titled with its name."""
    figure, panels = panel_grid(len(models), PANEL_COLUMNS, width, height, 1.0, **shared)
    for panel, name in zip(panels, models.values(), strict=True):
        panel.set_title(name, loc="left", parse_math=False)
    return figure, panels


def _label_below(panels: Sequence[Axes], splits: Sequence[str]) -> None:
    """Task or slice names on the x axis that all panels share, below the lowest panel of each column."""
    lowest = panels[-min(PANEL_COLUMNS, len(panels)) :]
    for panel in panels:
        panel.set_xticks(range(len(splits)), splits, rotation=30, ha="right", rotation_mode="anchor", parse_math=False)
        panel.tick_params(axis="x", length=0, labelbottom=panel in lowest)
        panel.set_xlim(-0.6, len(splits) - 0.4)


def split_points(
    metrics: pd.DataFrame,
    models: Mapping[str, str],
    conditions: Sequence[str],
    metric: str,
    label: str,
    logarithmic: bool = False,
    same_axis: bool = False,
) -> Figure | None:
    """A metric of one axis by task or slice with 95% intervals, one panel per model that has it; None without any.

    ``label`` is of the y axis, which is logarithmic where slices differ by factors, and which panels may share.
    """
    found = rows_of(metrics, metric=metric, family="")
    found = found[(found["split"] != "all") & found["condition"].isin(conditions)]
    shown = {model: name for model, name in models.items() if (found["model"] == model).any()}
    if not shown:
        return None
    splits = list(dict.fromkeys(found["split"]))
    colors, markers = condition_colors(conditions), condition_markers(conditions)
    with plt.rc_context(STYLE):
        figure, panels = _panels(shown, 0.8 + 0.45 * len(splits), 1.9, sharex=True, sharey=same_axis)
        for panel, model in zip(panels, shown, strict=True):
            for shift, condition in zip(side_by_side(len(conditions), 0.22), conditions, strict=True):
                rows = rows_of(found, model=model, condition=condition)
                if len(rows):
                    x, color = np.array([splits.index(split) for split in rows["split"]]) + shift, colors[condition]
                    panel.vlines(x, rows["ci_low"], rows["ci_high"], color=color, linewidth=1.0, alpha=0.8)
                    look = {"marker": markers[condition], "color": color, "label": condition}
                    panel.plot(x, rows["value"], linestyle="", markersize=3.5, **look)
            if logarithmic:
                _logarithmic(panel)
            panel.grid(axis="y", color="#dddddd", linewidth=0.5)
            panel.set_axisbelow(True)
        for panel in panels[::PANEL_COLUMNS]:
            panel.set_ylabel(label)
        _label_below(panels, splits)
        shared_legend(figure, panels, most_columns=None if len(panels) > 1 else 3)
    return figure


def _logarithmic(panel: Axes) -> None:
    panel.set_yscale("log")
    low, high = panel.get_ylim()
    # Powers of ten alone would leave a narrow range without a number.
    steps = (1, 3) if high / low > 100 else (1, 1.5, 2, 3, 5, 7)
    ticks = [step * 10.0**power for power in range(-1, 9) for step in steps]
    if high / low < 3:
        ticks = list(MaxNLocator(5).tick_values(low, high))
    panel.set_yticks([tick for tick in ticks if low <= tick <= high])
    panel.yaxis.set_major_formatter(ScalarFormatter())
    panel.yaxis.set_minor_formatter(NullFormatter())
    panel.tick_params(axis="y", which="minor", length=0)


def difference_points(
    tests: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str], label: str
) -> Figure | None:
    """Paired differences from base by task or slice with 95% intervals; the band is the margin of equivalence.

    ``tests`` has the columns model, condition, split, difference, ci_low, ci_high, margin and verdict. Models without
    a test have no panel; without any there is no figure (None).
    """
    shown = {model: name for model, name in models.items() if (tests["model"] == model).any()}
    if not shown:
        return None
    splits, methods = list(dict.fromkeys(tests["split"])), methods_of(conditions)
    colors, markers = condition_colors(conditions), condition_markers(conditions)
    with plt.rc_context(STYLE):
        figure, panels = _panels(shown, 3.4, 0.6 + 0.34 * len(splits), sharex=True, sharey=True)
        for panel, model in zip(panels, shown, strict=True):
            margin = float(tests.loc[tests["model"] == model, "margin"].max())
            panel.axvspan(-margin, margin, color="#eeeeee", zorder=0, label="margin")
            panel.axvline(0, color=TARGET_COLOR, linewidth=0.7, linestyle=":")
            for shift, condition in zip(side_by_side(len(methods), 0.32, most=2), methods, strict=True):
                rows = tests[(tests["model"] == model) & (tests["condition"] == condition)]
                look = {"marker": markers[condition], "edgecolors": colors[condition]}
                _difference_series(panel, rows, splits, condition, shift, look)
            panel.tick_params(axis="y", length=0)
        panels[0].set_yticks(range(len(splits)), splits, parse_math=False)
        panels[0].set_ylim(len(splits) - 0.5, -0.5)
        for panel in panels[-min(PANEL_COLUMNS, len(panels)) :]:
            panel.set_xlabel(label)
            panel.tick_params(labelbottom=True)
        shared_legend(figure, panels, most_columns=None if len(panels) > 1 else 3)
    return figure


def _difference_series(
    panel: Axes, rows: pd.DataFrame, splits: Sequence[str], condition: str, shift: float, look: Mapping[str, str]
) -> None:
    if rows.empty:
        return
    y = np.array([splits.index(split) for split in rows["split"]]) + shift
    difference = rows["difference"].to_numpy(dtype=float)
    panel.hlines(y, rows["ci_low"], rows["ci_high"], color=look["edgecolors"], linewidth=1.0)
    # Filled where the tests came to a verdict.
    told = (rows["verdict"] != "cannot tell").to_numpy()
    filled = look["edgecolors"]
    for chosen, filling, label in ((told, filled, condition), (~told, "white", f"{condition}, cannot tell")):
        if chosen.any():
            panel.scatter(
                difference[chosen], y[chosen], s=16, linewidths=0.9, zorder=3, facecolors=filling, label=label, **look
            )
