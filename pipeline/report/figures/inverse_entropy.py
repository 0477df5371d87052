"""The figure of answers to perturbed questions: Inv-Entropy by temperature, question by question."""

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.config.params import Params
from pipeline.core.semantics.inverse_entropy import rise_by_chance, rises_with_temperature
from pipeline.report.evaluations import Evaluations, display_names
from pipeline.report.figures.drawing import STYLE, TARGET_COLOR, Drawing, condition_colors

MEASURE = "inv_entropy_excess_nats"


def inverse_entropy_drawings(params: Params, evaluations: Evaluations) -> dict[str, Drawing]:
    """The figure by file name, where questions were asked at several temperatures."""
    names, conditions = display_names(params), params.conditions
    rows = evaluations.stacked(
        "inv_entropy", "per_prompt", ("prompt_id", MEASURE), list(names), conditions, optional=("temperature",)
    ).dropna()
    number = rows["temperature"].nunique()
    if number < 2:
        return {}
    return {
        "inv_entropy_temperature": Drawing(
            measure_by_temperature,
            (rows, names, conditions),
            "Inv-Entropy less ln(n + 1) by the temperature of the answers, a line for each question and the mean over "
            "them (black). Solid: questions on which it rises at every step, which TSU counts; dotted: all others. A "
            f"measure that ignores the temperature rises on {rise_by_chance(number):.0%} of questions.",
        )
    }


def measure_by_temperature(questions: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]) -> Figure:
    """A panel for each model and condition, whose title says how many questions TSU counts.

    Args:
        questions: Columns model, condition, prompt_id, temperature and MEASURE; of each model and condition every
            question at every temperature.
        models: Model name -> display name.
        conditions: Base and the methods, in order.
    """
    shown = [model for model in models if (questions["model"] == model).any()]
    colors = condition_colors(conditions)
    with plt.rc_context(STYLE):
        size = (2.2 * len(conditions) + 0.4, 2.0 * len(shown) + 0.4)
        figure, grid = plt.subplots(
            len(shown), len(conditions), figsize=size, squeeze=False, sharex=True, sharey=True, layout="constrained"
        )
        for line, model in zip(grid, shown, strict=True):
            for panel, condition in zip(line, conditions, strict=True):
                own = questions[(questions["model"] == model) & (questions["condition"] == condition)]
                counted = _panel(panel, own, colors[condition]) if len(own) else "not run"
                panel.set_title(f"{models[model]}: {condition}\n{counted}", loc="left")
            line[0].set_ylabel("excess (nats)")
        for panel in grid[-1]:
            panel.set_xlabel("temperature")
    return figure


def _panel(panel: Axes, questions: pd.DataFrame, color: str) -> str:
    """Draw the questions of one condition; says how many of them rise."""
    values = questions.pivot(index="prompt_id", columns="temperature", values=MEASURE)
    rises = rises_with_temperature(values.to_numpy())
    for group, style in ((values[~rises], ":"), (values[rises], "-")):
        panel.plot(values.columns, group.T, color=color, alpha=0.6, linewidth=0.8, linestyle=style)
    panel.plot(values.columns, values.mean(), color=TARGET_COLOR, linewidth=1.4, marker="o", markersize=3)
    panel.set_xticks(values.columns)
    return f"TSU {rises.sum()} of {len(rises)}"
