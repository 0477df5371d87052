"""Figures of open-ended generation: 9 and 10 of the paper."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.axes.structured.figures import overlay_models
from pipeline.report.evaluations import ReportContext, methods_of, rows_of
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
    side_by_side,
)

COMPARED_COLUMNS = {"top_p_support_size": "top-90% support size (tokens)", "unique_fraction": "unique output rate"}
SHOWN_CATEGORIES = ("city", "mammal", "weekday")
CANDIDATES_PER_CONDITION = 10
SHOWN_LABELS = 15
"""Answers whose bars Figure 10 shows, as its caption in arXiv:2605.11845 says."""


def open_drawings(context: ReportContext) -> dict[str, Drawing]:
    """Figures 9 and 10 by file name, each drawn where it has something to show."""
    names, conditions, evaluations = context.names, context.conditions, context.evaluations
    tokenizers = {name: model.tokenizer for name, model in context.params.models.items()}
    columns = ("prompt_id", *COMPARED_COLUMNS)
    per_prompt = evaluations.stacked("open", "per_prompt", columns, list(names), conditions)
    # One strong model per family: the lowest OOD W1, or the first where it was not evaluated.
    evaluated = set(rows_of(evaluations.metrics, axis="open")["model"])
    own = {model: name for model, name in tokenizers.items() if model in evaluated}
    strong: dict[str, str] = {}
    for model in (*overlay_models(own, conditions, evaluations.metrics), *own):
        strong.setdefault(own[model], model)
    answers = evaluations.stacked("open", "answers", ("category", "answer", "count"), strong.values(), conditions)
    return {
        "figure9": Drawing(
            prompt_scatter,
            (per_prompt, names, conditions, tokenizers),
            "Figure 9. Each point is one prompt and model: base against a fine-tuned condition. Colour: model family. "
            "Dotted: no change; titles count the points strictly above it.",
        ),
        "figure10": Drawing(
            answer_bars,
            (answers, {model: names[model] for model in strong.values()}, conditions),
            "Figure 10. Frequencies of answers, for one strong model per family. Shown are the first 15 of the ten "
            "most frequent answers of each condition, by their highest, then total share.",
        ),
    }


def prompt_pairs(per_prompt: pd.DataFrame, column: str, method: str) -> pd.DataFrame:
    """Prompts with a finite ``column`` under base and under a method: columns model, base, tuned."""
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


def prompt_scatter(
    per_prompt: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str], tokenizers: Mapping[str, str]
) -> Figure | None:
    """Figure 9: each prompt under base (x) and a fine-tuned condition (y), with the number of points strictly above the
    diagonal. ``per_prompt`` has columns model, condition, prompt_id and COMPARED_COLUMNS."""
    if per_prompt.empty:
        return None
    methods = methods_of(conditions)
    looks = model_markers([model for model in models if (per_prompt["model"] == model).any()], tokenizers)
    with plt.rc_context(STYLE):
        size = (3.2 * len(methods), 6.2)
        figure, grid = plt.subplots(2, len(methods), figsize=size, squeeze=False, layout="constrained")
        for line, (column, title) in zip(grid, COMPARED_COLUMNS.items(), strict=True):
            by_method = {method: prompt_pairs(per_prompt, column, method) for method in methods}
            # Both panels of a row have the same axes, so that the methods compare.
            highest = max(pairs[["base", "tuned"]].to_numpy().max(initial=10.0) for pairs in by_method.values())
            logarithmic = column == "top_p_support_size"
            limits = (0.8, 1.25 * float(highest)) if logarithmic else (-0.03, 1.03)
            for panel, (method, pairs) in zip(line, by_method.items(), strict=True):
                for model, points in pairs.groupby("model", sort=False):
                    color, marker = looks[model]
                    look = {"s": 14, "alpha": 0.55, "linewidths": 0, "color": color, "marker": marker}
                    panel.scatter(points["base"], points["tuned"], label=models[model], **look)
                if logarithmic:
                    panel.set(xscale="log", yscale="log")
                panel.plot(limits, limits, color=TARGET_COLOR, linewidth=0.7, linestyle=":", zorder=0)
                labels = {"xlabel": f"base: {title}", "ylabel": f"{method}: {title}"}
                panel.set(xlim=limits, ylim=limits, aspect="equal", **labels)
                above = int((pairs["tuned"] > pairs["base"]).sum())
                panel.set_title(f"{method}: {above} of {len(pairs)} above", loc="left")
        shared_legend(figure, grid.flatten(), most_columns=4)
    return figure


def answer_shares(answers: pd.DataFrame, conditions: Sequence[str]) -> dict[str, dict[str, float]]:
    """Share of each answer among all non-empty answers of one model and category, most frequent first, by condition."""
    shares = {}
    for condition in conditions:
        counts = answers[answers["condition"] == condition].groupby("answer")["count"].sum()
        if counts.sum():
            # Grouped answers are in order, and so are those with the same count.
            shares[condition] = (counts.sort_values(ascending=False, kind="stable") / counts.sum()).to_dict()
    return shares


def displayed_labels(shares: Mapping[str, Mapping[str, float]]) -> list[str]:
    """The answers to show: the first fifteen of the ten most frequent of each condition, by peak, then total share over
    the conditions, then spelling."""
    candidates = {
        answer: [by_answer.get(answer, 0.0) for by_answer in shares.values()]
        for first in shares.values()
        for answer in list(first)[:CANDIDATES_PER_CONDITION]
    }
    # Rounded: sums of the same shares in another order must tie.
    ranked = sorted(candidates, key=lambda a: (-max(candidates[a]), -round(sum(candidates[a]), 12), a))
    return ranked[:SHOWN_LABELS]


def answer_bars(answers: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]) -> Figure | None:
    """Figure 10: how often each answer comes under each condition, a column for each model."""
    if answers.empty:
        return None
    lines, columns = len(SHOWN_CATEGORIES), len(models)
    with plt.rc_context(STYLE):
        size = (0.6 + 2.9 * columns, 2.75 * lines)
        figure, grid = plt.subplots(lines, columns, figsize=size, squeeze=False, layout="constrained")
        for line, category in zip(grid, SHOWN_CATEGORIES, strict=True):
            for panel, (model, display_name) in zip(line, models.items(), strict=True):
                chosen = answers[(answers["model"] == model) & (answers["category"] == category)]
                _answer_panel(panel, answer_shares(chosen, conditions), condition_colors(conditions))
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
    places, height = np.arange(len(labels)), 0.8 / len(shares)
    shifts = side_by_side(len(shares), height, len(shares))
    for shift, (condition, by_answer) in zip(shifts, shares.items(), strict=True):
        lengths = [by_answer.get(label, 0.0) for label in labels]
        panel.barh(places + shift, lengths, height, color=colors[condition], label=condition)
    # Answers are no mathematics, whatever dollar signs they hold.
    look = {"fontsize": 6.5, "parse_math": False, "fontfamily": list(font_families())}
    panel.set_yticks(places, [drawable(label, 24) for label in labels], **look)
    panel.tick_params(axis="y", length=0)
    panel.set_ylim(len(labels) - 0.5, -0.5)
    panel.set_xlim(left=0)
