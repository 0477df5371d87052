"""Figures of answers to questions: reliability diagrams, and people's answers and entropies beside the model's."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.config.params import Params
from pipeline.report.evaluations import Evaluations, display_names
from pipeline.report.figures.drawing import (
    STYLE,
    TARGET_COLOR,
    Drawing,
    condition_colors,
    drawable,
    font_families,
    shared_legend,
)

POINTS = ("split", "target", "size", "confidence", "frequency", "band_low", "band_high")
ENTROPIES = ("people_entropy_nats", "semantic_entropy")
TARGET_TITLES = {"gold": "accepted answers", "people": "people"}
SHOWN_QUESTIONS, SHOWN_CLASSES = 6, 8
LABEL_LIMIT = 20


def evenly_spaced(size: int, most: int) -> np.ndarray:
    """Places of at most ``most`` of ``size`` things, the first and the last among them; none of none."""
    return np.unique(np.linspace(0, size - 1, min(most, size)).astype(int))


def answer_drawings(params: Params, evaluations: Evaluations) -> dict[str, dict[str, Drawing]]:
    """The figures of the axes human, semcal and uncertainty by axis and file name, where their tables exist."""
    names, conditions = display_names(params), params.conditions
    found: dict[str, dict[str, Drawing]] = {"human": {}, "semcal": {}, "uncertainty": {}}
    points = evaluations.stacked("semcal", "reliability", POINTS, list(names), conditions)
    points = points[(points["split"] == "all") & (points["size"] > 0)] if len(points) else points
    if len(points):
        found["semcal"]["reliability"] = Drawing(
            reliability_diagrams,
            (points, names, conditions),
            "Reliability of the confidence in the most frequent class of answers, in ten bins; areas of the marks go "
            "with the number of questions. Bars: where 95% of a calibrated model's points lie. Below the diagonal: "
            "overconfident.",
        )
    classes = evaluations.stacked(
        "human", "classes", ("prompt_id", "label", "people", "answers"), list(names), conditions
    )
    if len(classes):
        first = next(model for model in names if (classes["model"] == model).any())
        found["human"]["human_answers"] = Drawing(
            people_bars,
            (classes[classes["model"] == first], conditions),
            f"Shares of people (black outline) and of {names[first]}'s answers in the most frequent classes of "
            "questions that are evenly spaced over the set.",
        )
    asked = evaluations.stacked("uncertainty", "per_prompt", (*ENTROPIES, "classes"), list(names), conditions)
    asked = asked.dropna(subset=list(ENTROPIES))
    if len(asked):
        found["uncertainty"]["uncertainty_people"] = Drawing(
            entropies_of_people,
            (asked, names, conditions),
            "Semantic entropy of the model's answers by the entropy of people's, a mark for each question, both over "
            "the logarithm of the number of people's classes: without that, both grow with it. A model may give more "
            "classes of answers than people did.",
        )
    return found


def entropies_of_people(questions: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]) -> Figure:
    """The model's semantic entropy by people's entropy, both normalised, a panel for each model and condition.

    Args:
        questions: Columns model, condition, classes and ENTROPIES.
        models: Model name -> display name.
        conditions: Base and the methods, in order.
    """
    shown = [model for model in models if (questions["model"] == model).any()]
    colors = condition_colors(conditions)
    scaled = questions[list(ENTROPIES)].div(np.log(questions["classes"]), axis=0)
    with plt.rc_context(STYLE):
        size = (2.2 * len(conditions) + 0.4, 2.2 * len(shown) + 0.4)
        figure, grid = plt.subplots(
            len(shown), len(conditions), figsize=size, squeeze=False, sharex=True, sharey=True, layout="constrained"
        )
        for line, model in zip(grid, shown, strict=True):
            for panel, condition in zip(line, conditions, strict=True):
                own = scaled[(questions["model"] == model) & (questions["condition"] == condition)]
                panel.plot((0, 1), (0, 1), color=TARGET_COLOR, linewidth=0.7, linestyle=":", zorder=0)
                panel.scatter(
                    own["people_entropy_nats"], own["semantic_entropy"], s=8, color=colors[condition], alpha=0.6
                )
                panel.set_title(f"{models[model]}: {condition}", loc="left")
            line[0].set_ylabel("model")
        for panel in grid[-1]:
            panel.set_xlabel("people")
    return figure


def reliability_diagrams(points: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]) -> Figure:
    """Frequency by confidence, a row for each model and a column for each kind of label.

    Args:
        points: Columns model, condition, target and those of ``reliability``; no empty bins.
        models: Model name -> display name.
        conditions: Base and the methods, in order.
    """
    shown = [model for model in models if (points["model"] == model).any()]
    targets = [target for target in TARGET_TITLES if (points["target"] == target).any()]
    with plt.rc_context(STYLE):
        size = (3.0 * len(targets) + 0.4, 2.9 * len(shown) + 0.4)
        figure, grid = plt.subplots(len(shown), len(targets), figsize=size, squeeze=False, layout="constrained")
        for line, model in zip(grid, shown, strict=True):
            for panel, target in zip(line, targets, strict=True):
                own = points[(points["model"] == model) & (points["target"] == target)]
                _reliability_panel(panel, own, conditions)
                panel.set_title(f"{models[model]}: {TARGET_TITLES[target]}", loc="left")
                panel.set_xlabel("confidence")
                panel.set_ylabel("right" if target == "gold" else "share of people")
        shared_legend(figure, grid.flatten())
    return figure


def _reliability_panel(panel: Axes, points: pd.DataFrame, conditions: Sequence[str]) -> None:
    colors = condition_colors(conditions)
    panel.plot((0, 1), (0, 1), color=TARGET_COLOR, linewidth=0.7, linestyle=":", zorder=0)
    for condition in conditions:
        own = points[points["condition"] == condition].sort_values("confidence")
        if len(own):
            color = colors[condition]
            panel.vlines(own["confidence"], own["band_low"], own["band_high"], color=color, alpha=0.25, linewidth=4)
            panel.plot(own["confidence"], own["frequency"], color=color, linewidth=0.9, label=condition)
            panel.scatter(own["confidence"], own["frequency"], s=4 + 3 * own["size"], color=color, linewidths=0)
    panel.set_xlim(-0.03, 1.03)
    panel.set_ylim(-0.03, 1.03)
    panel.set_aspect("equal")


def people_bars(classes: pd.DataFrame, conditions: Sequence[str]) -> Figure:
    """People's answers and a model's under each condition, a panel for each of some questions.

    Args:
        classes: Columns condition, prompt_id, label, people, answers, of one model.
        conditions: Base and the methods, in order.
    """
    questions = classes["prompt_id"].unique()
    picks = evenly_spaced(len(questions), SHOWN_QUESTIONS)
    colors, columns = condition_colors(conditions), min(3, len(picks))
    with plt.rc_context(STYLE):
        lines = -(-len(picks) // columns)
        figure, grid = plt.subplots(
            lines, columns, figsize=(2.8 * columns, 2.6 * lines), squeeze=False, layout="constrained"
        )
        for panel in grid.flatten()[len(picks) :]:
            panel.set_axis_off()
        for panel, question in zip(grid.flatten(), questions[picks], strict=False):
            _people_panel(panel, classes[classes["prompt_id"] == question], conditions, colors)
            panel.set_title(drawable(str(question), 36), loc="left", parse_math=False)
        shared_legend(figure, grid.flatten())
    return figure


def _people_panel(panel: Axes, classes: pd.DataFrame, conditions: Sequence[str], colors: Mapping[str, str]) -> None:
    shares = {}
    for condition in conditions:
        own = classes[classes["condition"] == condition].set_index("label")
        if own["answers"].sum():
            shares[condition] = own["answers"] / own["answers"].sum()
    people = classes.drop_duplicates("label").set_index("label")["people"]
    people = people / people.sum()
    table = pd.DataFrame({"people": people, **shares}).fillna(0.0)
    table = table.sort_values("people", ascending=False, kind="stable").head(SHOWN_CLASSES)
    places, height = np.arange(len(table)), 0.8 / max(1, len(shares))
    panel.barh(places, table["people"], 0.9, facecolor="none", edgecolor=TARGET_COLOR, linewidth=0.8, label="people")
    for offset, condition in enumerate(shares):
        centres = places + (offset - (len(shares) - 1) / 2) * height
        panel.barh(centres, table[condition], height, color=colors[condition], label=condition)
    labels = [drawable(label, LABEL_LIMIT) for label in table.index]
    panel.set_yticks(places, labels, fontsize=6.5, parse_math=False, fontfamily=list(font_families()))
    panel.tick_params(axis="y", length=0)
    panel.set_ylim(len(table) - 0.5, -0.5)
    panel.set_xlim(0, 1)
