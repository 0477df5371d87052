"""Figures of what fine-tuning keeps: 11 to 13 of the paper, and paired differences from base."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter, ScalarFormatter

from pipeline.config.params import Params
from pipeline.report.evaluations import display_names, methods_of, rows_of
from pipeline.report.figures.drawing import (
    STYLE,
    TARGET_COLOR,
    Drawing,
    condition_colors,
    condition_markers,
    shared_legend,
    side_by_side,
)
from pipeline.report.tables.retention import WITHOUT_BOS, split_names
from pipeline.report.tables.retention_lists import one_variant

PANEL_COLUMNS = 3
BAR_WIDTH = 0.25
_MARGIN = "Grey: the margin within which a difference counts as none. White: the tests cannot tell."


def retention_drawings(params: Params, metrics: pd.DataFrame, tests: pd.DataFrame) -> dict[str, Drawing]:
    """Figure 11 and the paired differences by task; drawn where they exist."""
    names, conditions = display_names(params), params.conditions
    own = rows_of(metrics, axis="retention")
    return {
        "figure11": Drawing(
            task_bars,
            (own, names, conditions),
            "Figure 11. gp-IRT by task with 95% bootstrap intervals over items. The intervals are of each condition "
            "alone; whether conditions differ is in the paired tests.",
        ),
        "retention_differences": Drawing(
            difference_points,
            (tests, names, conditions, "score, fine-tuned − base"),
            f"Paired differences from base by task, with 95% intervals. {_MARGIN}",
        ),
    }


def paloma_drawings(params: Params, metrics: pd.DataFrame, tests: pd.DataFrame) -> dict[str, Drawing]:
    """Figures 12 and 13, each also without BOS, and the paired differences by slice; drawn where they exist."""
    names, conditions = display_names(params), params.conditions
    own = rows_of(metrics, axis="paloma")
    drawings: dict[str, Drawing] = {}
    for number, metric, title in ((12, "perplexity", "perplexity"), (13, "bits_per_byte", "bits per byte")):
        for suffix, variant in (("", ""), (WITHOUT_BOS, ", documents without the model's BOS token")):
            drawings[f"figure{number}{suffix}"] = Drawing(
                slice_points,
                (own, names, conditions, metric + suffix),
                f"Figure {number}. PALOMA {title} by slice{variant}, with 95% bootstrap intervals over documents. "
                "Lower is better; each panel has its own axis.",
            )
    drawings["paloma_differences"] = Drawing(
        difference_points,
        (one_variant(tests), names, conditions, "bits per byte, fine-tuned − base"),
        f"Paired differences from base by slice, with 95% intervals; below 0 is better. {_MARGIN}",
    )
    return drawings


def _by_split(metrics: pd.DataFrame, conditions: Sequence[str], axis: str, metric: str) -> pd.DataFrame:
    """Aggregate rows of one metric by task or slice, indexed by model, condition and split."""
    rows = rows_of(metrics, axis=axis, metric=metric, family="")
    chosen = rows[(rows["split"] != "all") & rows["condition"].isin(conditions)]
    return chosen.set_index(["model", "condition", "split"])


def _panels(models: Mapping[str, str], width: float, height: float, **shared: bool) -> tuple[Figure, list[Axes]]:
    """One panel per model, titled with its name; unused ones are off.

    Args:
        models: Model name -> display name.
        width: Of one panel, in inches.
        height: Of one panel, in inches.
        shared: ``sharex`` and ``sharey``.
    """
    columns = min(PANEL_COLUMNS, len(models))
    lines = -(-len(models) // columns)
    size = (max(5.6, width * columns), 1.0 + height * lines)
    figure, grid = plt.subplots(lines, columns, figsize=size, squeeze=False, layout="constrained", **shared)
    panels = list(grid.flatten())
    for panel, name in zip(panels, models.values(), strict=False):
        panel.set_title(name, loc="left", parse_math=False)
    for panel in panels[len(models) :]:
        panel.set_axis_off()
    return figure, panels[: len(models)]


def _label_below(panels: Sequence[Axes], splits: Sequence[str]) -> None:
    """Task or slice names on the x axis that all panels share, below the lowest panel of each column."""
    lowest = panels[-min(PANEL_COLUMNS, len(panels)) :]
    for panel in panels:
        panel.set_xticks(range(len(splits)), splits, rotation=30, ha="right", rotation_mode="anchor", parse_math=False)
        panel.tick_params(axis="x", length=0, labelbottom=panel in lowest)
        panel.set_xlim(-0.6, len(splits) - 0.4)


def task_bars(metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]) -> Figure | None:
    """Figure 11: gp-IRT by task with 95% intervals, one panel per model; None where nothing was evaluated.

    Args:
        metrics: The tidy metrics table.
        models: Model name -> display name; those without an evaluation have no panel.
        conditions: Base and the methods, in order.
    """
    chosen, splits = _by_split(metrics, conditions, "retention", "gp_irt"), split_names(metrics, "retention", "gp_irt")
    shown = {model: name for model, name in models.items() if model in set(chosen.index.get_level_values("model"))}
    if not shown:
        return None
    colors, width = condition_colors(conditions), min(BAR_WIDTH, 3 * BAR_WIDTH / len(conditions))
    with plt.rc_context(STYLE):
        figure, panels = _panels(shown, 0.8 + 0.5 * len(splits), 1.9, sharex=True, sharey=True)
        for panel, model in zip(panels, shown, strict=True):
            for shift, condition in zip(side_by_side(len(conditions), BAR_WIDTH + 0.02), conditions, strict=True):
                for place, split in enumerate(splits):
                    if (model, condition, split) in chosen.index:
                        row = chosen.loc[(model, condition, split)]
                        look = {"width": width, "color": colors[condition], "label": condition}
                        _bar(panel, place + shift, row, look, detailed=len(shown) == 1)
            panel.set_ylim(0, 1)
        for panel in panels[::PANEL_COLUMNS]:
            panel.set_ylabel("gp-IRT")
        _label_below(panels, splits)
        shared_legend(figure, panels, most_columns=None if len(panels) > 1 else 3)
    return figure


def _bar(panel: Axes, x: float, row: pd.Series, look: Mapping[str, Any], detailed: bool) -> None:
    if not math.isfinite(row["value"]):
        panel.text(x, 0.01, "undefined", rotation=90, ha="center", va="bottom", fontsize=5.5, color=look["color"])
        return
    panel.bar(x, row["value"], **look)
    if math.isfinite(row["ci_low"]):
        panel.plot([x, x], [row["ci_low"], row["ci_high"]], color="#333333", linewidth=0.9)
    if detailed:
        top = np.nanmax([row["value"], row["ci_high"]])
        panel.annotate(
            f"{row['value']:.2f}", (x, top), (0, 1), textcoords="offset points", ha="center", va="bottom", fontsize=5.5
        )


def slice_points(
    metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str], metric: str
) -> Figure | None:
    """Figures 12 and 13: a metric of text by slice with 95% intervals, one panel per model.

    Perplexity is on a logarithmic axis, because slices differ by factors; points, because no zero
    is in sight from which bars could rise.

    Args:
        metrics: The tidy metrics table.
        models: Model name -> display name; those without the metric have no panel.
        conditions: Base and the methods, in order.
        metric: "perplexity" or "bits_per_byte", or either with the suffix "_without_bos".

    Returns:
        The figure; None where nothing was evaluated.
    """
    chosen, splits = _by_split(metrics, conditions, "paloma", metric), split_names(metrics, "paloma", metric)
    shown = {model: name for model, name in models.items() if model in set(chosen.index.get_level_values("model"))}
    if not shown:
        return None
    logarithmic = metric.startswith("perplexity")
    colors, markers = condition_colors(conditions), condition_markers(conditions)
    with plt.rc_context(STYLE):
        figure, panels = _panels(shown, 0.8 + 0.45 * len(splits), 1.9, sharex=True)
        for panel, model in zip(panels, shown, strict=True):
            rows = chosen.loc[[model]].droplevel("model")
            for shift, condition in zip(side_by_side(len(conditions), 0.22), conditions, strict=True):
                look = {"marker": markers[condition], "color": colors[condition]}
                _slice_series(panel, rows, splits, condition, shift, look)
            if logarithmic:
                _logarithmic(panel)
            panel.grid(axis="y", color="#dddddd", linewidth=0.5)
            panel.set_axisbelow(True)
        for panel in panels[::PANEL_COLUMNS]:
            panel.set_ylabel("perplexity" if logarithmic else "bits per byte")
        _label_below(panels, splits)
        shared_legend(figure, panels, most_columns=None if len(panels) > 1 else 3)
    return figure


def _slice_series(
    panel: Axes, rows: pd.DataFrame, splits: Sequence[str], condition: str, shift: float, look: Mapping[str, str]
) -> None:
    places = [place for place, split in enumerate(splits) if (condition, split) in rows.index]
    if not places:
        return
    x = np.array(places) + shift
    drawn = [rows.loc[(condition, splits[place])] for place in places]
    value, low, high = (np.array([row[name] for row in drawn], dtype=float) for name in ("value", "ci_low", "ci_high"))
    panel.vlines(x, low, high, color=look["color"], linewidth=1.0, alpha=0.8)
    panel.plot(x, value, linestyle="", markersize=3.5, label=condition, **look)


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

    Args:
        tests: Columns model, condition, split, difference, ci_low, ci_high, margin, verdict.
        models: Model name -> display name; those without a test have no panel.
        conditions: Base and the methods, in order.
        label: What the difference is of.

    Returns:
        The figure; None where there is no test.
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
