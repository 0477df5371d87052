"""Figures of open-ended generation: 9 and 10 of the paper, and support size by threshold."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from pipeline.config.params import CONDITIONS, METHODS
from pipeline.report.figures.style import (
    COLORS,
    FAMILY_COLORS,
    MARKERS,
    STYLE,
    TARGET_COLOR,
    drawable,
    font_families,
    shared_legend,
)
from pipeline.report.tables.answer_labels import answer_shares, displayed_labels

COMPARED_COLUMNS = {"top_p_support_size": "top-90% support size (tokens)", "unique_fraction": "unique output rate"}
SHOWN_CATEGORIES = ("city", "mammal", "weekday")
LABEL_LIMIT = 24
CURVE_COLUMNS = 4


def prompt_pairs(per_prompt: pd.DataFrame, column: str, method: str) -> pd.DataFrame:
    """Prompts with a finite value under base and under a method: columns model, base, tuned.

    Args:
        per_prompt: Columns model, condition, prompt_id and ``column``.
        column: What is compared.
        method: "soft" or "hard".
    """
    values = per_prompt.set_index(["model", "prompt_id"])
    base, tuned = (values.loc[values["condition"] == c, column].astype(float) for c in ("base", method))
    pairs = pd.concat({"base": base, "tuned": tuned}, axis=1, join="inner").dropna()
    return pairs.reset_index()[["model", "base", "tuned"]]


def model_markers(models: Sequence[str], tokenizers: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Colour by family (models of one tokenizer) and marker by the model's place within it."""
    families: dict[str, list[str]] = {}
    for model in models:
        families.setdefault(tokenizers[model], []).append(model)
    return {
        model: (FAMILY_COLORS[number % len(FAMILY_COLORS)], MARKERS[place % len(MARKERS)])
        for number, members in enumerate(families.values())
        for place, model in enumerate(members)
    }


def prompt_scatter(per_prompt: pd.DataFrame, models: Mapping[str, str], tokenizers: Mapping[str, str]) -> Figure:
    """Figure 9: each prompt under base (x) and under a fine-tuned condition (y).

    Rows are support size (logarithmic) and unique output rate, columns soft and hard.
    Each panel counts the points strictly above the diagonal.

    Args:
        per_prompt: Columns model, condition, prompt_id, top_p_support_size, unique_fraction.
        models: Model name -> display name.
        tokenizers: Model name -> tokenizer name.
    """
    shown = [model for model in models if (per_prompt["model"] == model).any()]
    looks = model_markers(shown, tokenizers)
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(2, len(METHODS), figsize=(6.4, 6.2), squeeze=False, layout="constrained")
        for axes, (column, title) in zip(grid, COMPARED_COLUMNS.items(), strict=True):
            by_method = {method: prompt_pairs(per_prompt, column, method) for method in METHODS}
            # Both panels of a row have the same axes, so that the methods compare.
            highest = max(pairs[["base", "tuned"]].to_numpy().max(initial=0.0) for pairs in by_method.values())
            for axis, (method, pairs) in zip(axes, by_method.items(), strict=True):
                _scatter(axis, pairs, shown, looks, models)
                _diagonal(axis, float(highest) if column == "top_p_support_size" else None)
                axis.set_xlabel(f"base: {title}")
                axis.set_ylabel(f"{method}: {title}")
                above = int((pairs["tuned"] > pairs["base"]).sum())
                axis.set_title(f"{method}: {above} of {len(pairs)} above", loc="left")
        shared_legend(figure, grid.flatten(), most_columns=4)
    return figure


def _scatter(
    axis: Axes,
    pairs: pd.DataFrame,
    shown: Sequence[str],
    looks: Mapping[str, tuple[str, str]],
    models: Mapping[str, str],
) -> None:
    for model in shown:
        points = pairs[pairs["model"] == model]
        if len(points):
            color, marker = looks[model]
            axis.scatter(
                points["base"],
                points["tuned"],
                s=14,
                color=color,
                marker=marker,
                alpha=0.55,
                linewidths=0,
                label=models[model],
            )


def _diagonal(axis: Axes, highest: float | None) -> None:
    """Equal axes with the diagonal: logarithmic from 1 to ``highest``, or linear from 0 to 1 where that is None."""
    if highest is not None:
        limits = (0.8, 1.25 * max(10.0, highest))
        axis.set_xscale("log")
        axis.set_yscale("log")
    else:
        limits = (-0.03, 1.03)
    axis.plot(limits, limits, color=TARGET_COLOR, linewidth=0.7, linestyle=":", zorder=0)
    axis.set_xlim(limits)
    axis.set_ylim(limits)
    axis.set_aspect("equal")


def answer_bars(answers: pd.DataFrame, models: Mapping[str, str]) -> Figure:
    """Figure 10: how often each answer comes, under base, soft and hard.

    Args:
        answers: Columns model, condition, category, answer, count.
        models: Model name -> display name, one column each.
    """
    with plt.rc_context(STYLE):
        size = (0.6 + 2.9 * len(models), 2.75 * len(SHOWN_CATEGORIES))
        figure, grid = plt.subplots(
            len(SHOWN_CATEGORIES), len(models), figsize=size, squeeze=False, layout="constrained"
        )
        for axes, category in zip(grid, SHOWN_CATEGORIES, strict=True):
            for axis, (model, display_name) in zip(axes, models.items(), strict=True):
                chosen = answers[(answers["model"] == model) & (answers["category"] == category)]
                _answer_panel(axis, answer_shares(chosen))
                axis.set_title(f"{display_name}: {category}", loc="left")
        for axis in grid[-1]:
            axis.set_xlabel("share of answers")
        shared_legend(figure, grid.flatten())
    return figure


def _answer_panel(axis: Axes, shares: Mapping[str, Mapping[str, float]]) -> None:
    labels = displayed_labels(shares)
    if not labels:
        axis.text(0.5, 0.5, "not run", ha="center", va="center", transform=axis.transAxes, color=COLORS["base"])
        axis.set_axis_off()
        return
    positions, height = np.arange(len(labels)), 0.8 / len(shares)
    for offset, (condition, by_answer) in enumerate(shares.items()):
        lengths = [by_answer.get(label, 0.0) for label in labels]
        centres = positions + (offset - (len(shares) - 1) / 2) * height
        axis.barh(centres, lengths, height, color=COLORS[condition], label=condition)
    # Answers are no mathematics, whatever dollar signs they hold.
    axis.set_yticks(
        positions,
        [drawable(label, LABEL_LIMIT) for label in labels],
        fontsize=6.5,
        parse_math=False,
        fontfamily=list(font_families()),
    )
    axis.tick_params(axis="y", length=0)
    axis.set_ylim(len(labels) - 0.5, -0.5)
    axis.set_xlim(left=0)


def support_curve(support: pd.DataFrame, models: Mapping[str, str]) -> Figure:
    """Support size against the probability held: median over prompts, band between the quartiles.

    Args:
        support: Columns model, condition, prompt_id, threshold, support_size.
        models: Model name -> display name, one panel each.
    """
    columns = min(CURVE_COLUMNS, len(models))
    lines = -(-len(models) // columns)
    with plt.rc_context(STYLE):
        size = (0.8 + 2.7 * columns, 0.5 + 2.2 * lines)
        figure, grid = plt.subplots(
            lines, columns, figsize=size, squeeze=False, sharex=True, sharey=True, layout="constrained"
        )
        panels = grid.flatten()
        for axis, (model, display_name) in zip(panels, models.items(), strict=False):
            _curves(axis, support[support["model"] == model])
            axis.set_title(display_name, loc="left")
        for axis in panels[len(models) :]:
            axis.set_axis_off()
        for axis in panels[max(0, len(models) - columns) : len(models)]:
            axis.set_xlabel("probability held")
            axis.tick_params(labelbottom=True)
        for axis in grid[:, 0]:
            axis.set_ylabel("first-step tokens")
        shared_legend(figure, grid.flatten())
    return figure


def _curves(axis: Axes, support: pd.DataFrame) -> None:
    for condition in CONDITIONS:
        sizes = support.loc[support["condition"] == condition].groupby("threshold")["support_size"]
        if not len(sizes):
            continue
        # The classic percentile over prompts; sizes are whole numbers, so the band has steps.
        low, middle, high = (sizes.quantile(level) for level in (0.25, 0.5, 0.75))
        axis.fill_between(low.index, low, high, color=COLORS[condition], alpha=0.18, linewidth=0)
        axis.plot(middle.index, middle, color=COLORS[condition], linewidth=1.3, label=condition)
    axis.set_yscale("log")
    # The logit scale keeps 0.99 and 0.999 apart.
    axis.set_xscale("logit")
    ticks = (0.05, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999)
    axis.set_xticks(ticks, [f"{tick:g}".removeprefix("0") for tick in ticks])
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.axvline(0.9, color=TARGET_COLOR, linewidth=0.7, linestyle=":")
