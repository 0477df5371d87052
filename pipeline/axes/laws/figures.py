"""Figure of laws of one's own: the target beside the answers of each condition."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.axes.laws import SPLIT_TITLES as LAW_SPLITS
from pipeline.config.params import Params
from pipeline.core.prompts.own_laws import SPLITS
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

PANELS, COLUMNS = 12, 3
CLASSES = 12
"""Of a panel, the most probable ones."""
LABEL_LIMIT = 18


def law_drawings(params: Params, evaluations: Evaluations) -> dict[str, Drawing]:
    """Bars and distribution functions of the first model that was evaluated, by file name."""
    names = display_names(params)
    columns = ("prompt_id", "split", "family", "fields", "numeric")
    prompts = evaluations.stacked("laws", "per_prompt", columns, list(names), params.conditions)
    if prompts.empty:
        return {}
    model = prompts["model"].iloc[0]
    prompts = prompts[prompts["model"] == model].drop(columns="model")
    found = {
        name: evaluations.stacked("laws", name, own, [model], params.conditions).drop(columns="model")
        for name, own in (
            ("classes", ("prompt_id", "class", "target", "count")),
            ("samples", ("prompt_id", "values", "reference")),
        )
    }
    return {
        "laws": Drawing(
            law_panels,
            (prompts, found["classes"], found["samples"], params.conditions),
            f"{names[model]}: laws of one's own (black) and valid answers, of all requests for a law together; "
            f"held-out templates or values where there are any. Numbers as distribution functions, at most {PANELS}.",
        )
    }


def shown_laws(prompts: pd.DataFrame) -> list[tuple[str, str, str]]:
    """Law, fields and split of each panel: of each case of a law the first split of SPLITS; laws take turns."""
    cases: dict[str, dict[str, str]] = {}
    for split in SPLITS:
        for row in prompts[prompts["split"] == split].itertuples():
            cases.setdefault(row.family, {}).setdefault(row.fields, split)
    # Values that were held out say most of a law of several.
    ordered = {law: sorted(own.items(), key=lambda item: item[1] != "held_out_field") for law, own in cases.items()}
    turns = [(place, law, *own[place]) for law, own in ordered.items() for place in range(len(own))]
    chosen = sorted(turns, key=lambda turn: turn[0])[:PANELS]
    laws = list(ordered)
    return [turn[1:] for turn in sorted(chosen, key=lambda turn: (laws.index(turn[1]), turn[0]))]


def law_panels(
    prompts: pd.DataFrame, classes: pd.DataFrame, samples: pd.DataFrame, conditions: Sequence[str]
) -> Figure | None:
    """One panel per law, of the tables that ``law_drawings`` reads."""
    shown, colors = shown_laws(prompts), condition_colors(conditions)
    if not shown:
        return None
    columns = min(COLUMNS, len(shown))
    with plt.rc_context(STYLE):
        lines = -(-len(shown) // columns)
        figure, grid = plt.subplots(
            lines, columns, figsize=(3.1 * columns, 2.4 * lines), squeeze=False, layout="constrained"
        )
        for panel in grid.flatten()[len(shown) :]:
            panel.set_axis_off()
        for panel, (law, fields, split) in zip(grid.flatten(), shown, strict=False):
            own = prompts[(prompts["family"] == law) & (prompts["fields"] == fields) & (prompts["split"] == split)]
            ids = set(own["prompt_id"])
            if bool(own["numeric"].iloc[0]):
                _functions(panel, samples[samples["prompt_id"].isin(ids)], colors)
            else:
                _bars(panel, classes[classes["prompt_id"].isin(ids)], colors)
            title = f"{law} ({fields})" if fields else law
            panel.set_title(f"{drawable(title, 40)}\n{LAW_SPLITS[split]}", loc="left", parse_math=False)
        shared_legend(figure, grid.flatten())
    return figure


def _bars(panel: Axes, classes: pd.DataFrame, colors: Mapping[str, str]) -> None:
    targets = classes.groupby("class", sort=False)["target"].first().sort_values(ascending=False, kind="stable")
    targets = targets.head(CLASSES)
    present = [name for name in colors if (classes["condition"] == name).any()]
    positions, width = np.arange(len(targets)), 0.8 / (len(present) + 1)
    panel.bar(positions - 0.4 + width / 2, targets, width, color=TARGET_COLOR, label="law")
    for place, condition in enumerate(present, start=1):
        counts = classes[classes["condition"] == condition].groupby("class")["count"].sum()
        shares = counts / max(int(counts.sum()), 1)
        heights = [float(shares.get(name, 0.0)) for name in targets.index]
        panel.bar(positions - 0.4 + (place + 0.5) * width, heights, width, color=colors[condition], label=condition)
    labels = [drawable(str(name), LABEL_LIMIT) for name in targets.index]
    panel.set_xticks(positions, labels, rotation=30, ha="right", parse_math=False, fontfamily=list(font_families()))
    panel.set_ylabel("share")


def _functions(panel: Axes, samples: pd.DataFrame, colors: Mapping[str, str]) -> None:
    reference = np.sort(np.concatenate([np.empty(0), *samples["reference"]]))
    if len(reference):
        panel.plot(reference, np.arange(1, len(reference) + 1) / len(reference), color=TARGET_COLOR, label="law")
    for condition, color in colors.items():
        values = np.sort(np.concatenate([np.empty(0), *samples[samples["condition"] == condition]["values"]]))
        if len(values):
            panel.step(values, np.arange(1, len(values) + 1) / len(values), where="post", color=color, label=condition)
    if len(reference):
        # A single far answer would hide the rest.
        margin = 0.1 * (reference[-1] - reference[0])
        panel.set_xlim(reference[0] - margin, reference[-1] + margin)
    panel.set_ylabel("P(answer ≤ x)")
