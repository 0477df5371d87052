"""Figures of open-ended generation: 9 and 10 of the paper, and support size by threshold."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from pipeline.axes.open.stated import answer_shares, prompt_pairs
from pipeline.axes.structured.figures import overlay_models
from pipeline.report.evaluations import Evaluations, ReportContext, methods_of, rows_of
from pipeline.report.figures.drawing import (
    FAMILY_COLORS,
    MARKERS,
    STYLE,
    TARGET_COLOR,
    Drawing,
    condition_colors,
    drawable,
    font_families,
    shared_legend,
)

COMPARED_COLUMNS = {"top_p_support_size": "top-90% support size (tokens)", "unique_fraction": "unique output rate"}
SHOWN_CATEGORIES = ("city", "mammal", "weekday")
LABEL_LIMIT = 24
CURVE_COLUMNS = 4
CANDIDATES_PER_CONDITION = 10
SHOWN_LABELS = 15
"""Answers whose bars Figure 10 shows, as its caption in arXiv:2605.11845 says."""


def open_drawings(context: ReportContext) -> dict[str, Drawing]:
    """Figures 9 and 10 and the support curve by file name, where their tables exist."""
    names, conditions, evaluations = context.names, context.conditions, context.evaluations
    tokenizers = {name: model.tokenizer for name, model in context.params.models.items()}
    drawings: dict[str, Drawing] = {}
    columns = ("prompt_id", *COMPARED_COLUMNS)
    per_prompt = evaluations.stacked("open", "per_prompt", columns, list(names), conditions)
    if len(per_prompt):
        drawings["figure9"] = Drawing(
            prompt_scatter,
            (per_prompt, names, conditions, tokenizers),
            "Figure 9. Each point is one prompt and model: base against a fine-tuned condition. Colour: model family. "
            "Dotted: no change; titles count the points strictly above it.",
        )
    strong = _strong_models(evaluations, conditions, tokenizers)
    answers = evaluations.stacked("open", "answers", ("category", "answer", "count"), strong, conditions)
    if len(answers):
        drawings["figure10"] = Drawing(
            answer_bars,
            (answers, {model: names[model] for model in strong}, conditions),
            "Figure 10. Frequencies of answers, for one strong model per family. Shown are the first 15 of the ten "
            "most frequent answers of each condition, by their highest, then total share.",
        )
    support = evaluations.stacked(
        "open", "support", ("prompt_id", "threshold", "support_size"), list(names), conditions
    )
    if len(support):
        present = {model: names[model] for model in names if (support["model"] == model).any()}
        drawings["support_curve"] = Drawing(
            support_curve,
            (support, present, conditions),
            "Support size: the least number of first-step tokens that hold a probability. Median over prompts, with "
            "the range of the middle half. Dotted: 0.9, the threshold of Table 1 and Figure 9.",
        )
    return drawings


def _strong_models(evaluations: Evaluations, conditions: Sequence[str], tokenizers: Mapping[str, str]) -> list[str]:
    """One model with open-ended evaluations per family: the lowest OOD W1, or the first where it was not evaluated."""
    evaluated = set(rows_of(evaluations.metrics, axis="open")["model"])
    own = {model: name for model, name in tokenizers.items() if model in evaluated}
    picked: dict[str, str] = {}
    for model in (*overlay_models(own, conditions, evaluations.metrics), *own):
        picked.setdefault(own[model], model)
    return list(picked.values())


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


def prompt_scatter(
    per_prompt: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str], tokenizers: Mapping[str, str]
) -> Figure:
    """Figure 9: each prompt under base (x) and under a fine-tuned condition (y).

    Rows are support size (logarithmic) and unique output rate, columns the methods. Each panel counts the points
    strictly above the diagonal. ``per_prompt`` has columns model, condition, prompt_id and COMPARED_COLUMNS.
    """
    methods = methods_of(conditions)
    shown = [model for model in models if (per_prompt["model"] == model).any()]
    looks = model_markers(shown, tokenizers)
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(
            2, len(methods), figsize=(3.2 * len(methods), 6.2), squeeze=False, layout="constrained"
        )
        for line, (column, title) in zip(grid, COMPARED_COLUMNS.items(), strict=True):
            by_method = {method: prompt_pairs(per_prompt, column, method) for method in methods}
            # Both panels of a row have the same axes, so that the methods compare.
            highest = max(pairs[["base", "tuned"]].to_numpy().max(initial=0.0) for pairs in by_method.values())
            for panel, (method, pairs) in zip(line, by_method.items(), strict=True):
                for model in shown:
                    (color, marker), points = looks[model], pairs[pairs["model"] == model]
                    look = {"s": 14, "alpha": 0.55, "linewidths": 0, "color": color, "marker": marker}
                    if len(points):
                        panel.scatter(points["base"], points["tuned"], label=models[model], **look)
                _diagonal(panel, float(highest) if column == "top_p_support_size" else None)
                panel.set_xlabel(f"base: {title}")
                panel.set_ylabel(f"{method}: {title}")
                above = int((pairs["tuned"] > pairs["base"]).sum())
                panel.set_title(f"{method}: {above} of {len(pairs)} above", loc="left")
        shared_legend(figure, grid.flatten(), most_columns=4)
    return figure


def _diagonal(panel: Axes, highest: float | None) -> None:
    """Equal axes with the diagonal: logarithmic from 1 to ``highest``, or linear from 0 to 1 where that is None."""
    if highest is not None:
        limits = (0.8, 1.25 * max(10.0, highest))
        panel.set_xscale("log")
        panel.set_yscale("log")
    else:
        limits = (-0.03, 1.03)
    panel.plot(limits, limits, color=TARGET_COLOR, linewidth=0.7, linestyle=":", zorder=0)
    panel.set_xlim(limits)
    panel.set_ylim(limits)
    panel.set_aspect("equal")


def displayed_labels(shares: Mapping[str, Mapping[str, float]]) -> list[str]:
    """The answers to show, by peak, then total share over the conditions, then spelling.

    The first fifteen of the ten most frequent answers of each condition; ``shares`` are by condition and answer, the
    most frequent first.
    """
    candidates = {
        answer: [by_answer.get(answer, 0.0) for by_answer in shares.values()]
        for first in shares.values()
        for answer in list(first)[:CANDIDATES_PER_CONDITION]
    }
    # Rounded: sums of the same shares in another order must tie.
    ranked = sorted(candidates, key=lambda a: (-max(candidates[a]), -round(sum(candidates[a]), 12), a))
    return ranked[:SHOWN_LABELS]


def answer_bars(answers: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]) -> Figure:
    """Figure 10: how often each answer comes under each condition, a column for each model.

    ``answers`` has columns model, condition, category, answer and count.
    """
    colors = condition_colors(conditions)
    with plt.rc_context(STYLE):
        size = (0.6 + 2.9 * len(models), 2.75 * len(SHOWN_CATEGORIES))
        figure, grid = plt.subplots(
            len(SHOWN_CATEGORIES), len(models), figsize=size, squeeze=False, layout="constrained"
        )
        for line, category in zip(grid, SHOWN_CATEGORIES, strict=True):
            for panel, (model, display_name) in zip(line, models.items(), strict=True):
                chosen = answers[(answers["model"] == model) & (answers["category"] == category)]
                _answer_panel(panel, answer_shares(chosen, conditions), colors)
                panel.set_title(f"{display_name}: {category}", loc="left")
        for panel in grid[-1]:
            panel.set_xlabel("share of answers")
        shared_legend(figure, grid.flatten())
    return figure


def _answer_panel(panel: Axes, shares: Mapping[str, Mapping[str, float]], colors: Mapping[str, str]) -> None:
    labels = displayed_labels(shares)
    if not labels:
        panel.text(0.5, 0.5, "not run", ha="center", va="center", transform=panel.transAxes, color=colors["base"])
        panel.set_axis_off()
        return
    positions, height = np.arange(len(labels)), 0.8 / len(shares)
    for offset, (condition, by_answer) in enumerate(shares.items()):
        lengths = [by_answer.get(label, 0.0) for label in labels]
        centres = positions + (offset - (len(shares) - 1) / 2) * height
        panel.barh(centres, lengths, height, color=colors[condition], label=condition)
    # Answers are no mathematics, whatever dollar signs they hold.
    panel.set_yticks(
        positions,
        [drawable(label, LABEL_LIMIT) for label in labels],
        fontsize=6.5,
        parse_math=False,
        fontfamily=list(font_families()),
    )
    panel.tick_params(axis="y", length=0)
    panel.set_ylim(len(labels) - 0.5, -0.5)
    panel.set_xlim(left=0)


def support_curve(support: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]) -> Figure:
    """Support size against the probability held: median over prompts, band between the quartiles, a panel a model.

    ``support`` has columns model, condition, prompt_id, threshold and support_size.
    """
    columns = min(CURVE_COLUMNS, len(models))
    lines = -(-len(models) // columns)
    with plt.rc_context(STYLE):
        size = (0.8 + 2.7 * columns, 0.5 + 2.2 * lines)
        figure, grid = plt.subplots(
            lines, columns, figsize=size, squeeze=False, sharex=True, sharey=True, layout="constrained"
        )
        panels = grid.flatten()
        for panel, (model, display_name) in zip(panels, models.items(), strict=False):
            _curves(panel, support[support["model"] == model], conditions)
            panel.set_title(display_name, loc="left")
        for panel in panels[len(models) :]:
            panel.set_axis_off()
        for panel in panels[max(0, len(models) - columns) : len(models)]:
            panel.set_xlabel("probability held")
            panel.tick_params(labelbottom=True)
        for panel in grid[:, 0]:
            panel.set_ylabel("first-step tokens")
        shared_legend(figure, grid.flatten())
    return figure


def _curves(panel: Axes, support: pd.DataFrame, conditions: Sequence[str]) -> None:
    colors = condition_colors(conditions)
    for condition in conditions:
        sizes = support.loc[support["condition"] == condition].groupby("threshold")["support_size"]
        if not len(sizes):
            continue
        # The classic percentile over prompts; sizes are whole numbers, so the band has steps.
        low, middle, high = (sizes.quantile(level) for level in (0.25, 0.5, 0.75))
        panel.fill_between(low.index, low, high, color=colors[condition], alpha=0.18, linewidth=0)
        panel.plot(middle.index, middle, color=colors[condition], linewidth=1.3, label=condition)
    panel.set_yscale("log")
    # The logit scale keeps 0.99 and 0.999 apart.
    panel.set_xscale("logit")
    ticks = (0.05, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999)
    panel.set_xticks(ticks, [f"{tick:g}".removeprefix("0") for tick in ticks])
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.axvline(0.9, color=TARGET_COLOR, linewidth=0.7, linestyle=":")
