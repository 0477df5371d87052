"""Figures 4 to 7 of the paper: W1 and logit KL of each family of distributions."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from pipeline.core.laws.families import FAMILIES
from pipeline.core.prompts.structured import Prompt
from pipeline.report.evaluations import rows_of
from pipeline.report.figures.drawing import (
    STYLE,
    TARGET_COLOR,
    Drawing,
    condition_colors,
    condition_markers,
    law_title,
    panel_grid,
    shared_legend,
    side_by_side,
)

WASSERSTEIN, KL = "wasserstein_1_normalised_prompt_median", "logit_kl_nats"
LABELS = {WASSERSTEIN: "median W1 / (Q95 − Q05)", KL: "logit KL (nats)"}
FIGURES = {
    "figure4": (WASSERSTEIN, "ood", "Figure 4. Median normalised W1 of each held-out distribution"),
    "figure5": (KL, "ood", "Figure 5. Logit KL of each held-out distribution"),
    "figure6": (KL, "unseen", "Figure 6. Logit KL at unseen parameters of each distribution"),
    "figure7": (WASSERSTEIN, "unseen", "Figure 7. Median normalised W1 at unseen parameters of each distribution"),
}
"""Metric, split and caption by file name."""
CAPTIONS = {
    WASSERSTEIN: (
        "Median over the distribution's prompts that have a valid answer, every model by itself. 95% intervals "
        "resample prompts and samples. Logarithmic, each panel with its own axis. Cross at the top: undefined, no "
        "valid answer. Dotted: a perfect sampler of as many answers."
    ),
    KL: (
        "Mean over the distribution's prompts, every model by itself. 95% intervals resample prompts; none of a single "
        "one. Logarithmic, each panel with its own axis."
    ),
}


def family_drawings(
    metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str], prompts: Sequence[Prompt]
) -> dict[str, Drawing]:
    """Figures 4 to 7 by file name; drawn where something was evaluated. ``prompts``: those of the evaluated splits."""
    drawings = {}
    for name, (metric, split, title) in FIGURES.items():
        rows = rows_of(metrics, axis="structured", split=split, metric=metric)
        rows = rows[(rows["family"] != "") & rows["condition"].isin(conditions)]
        own = [prompt for prompt in prompts if prompt.split == split]
        arguments = (rows, models, conditions, LABELS[metric], own)
        drawings[name] = Drawing(family_panels, arguments, f"{title}. {CAPTIONS[metric]}")
    return drawings


def family_panels(
    rows: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str], label: str, prompts: Sequence[Prompt]
) -> Figure | None:
    """One panel per family, of the rows of one metric and split by model and condition; None where there are none.

    Models without an evaluation are left out; a family with a single one of ``prompts`` is titled with its parameters.
    """
    shown = {model: name for model, name in models.items() if (rows["model"] == model).any()}
    families = [family for family in FAMILIES if (rows["family"] == family).any()]
    if not shown or not families:
        return None
    columns, names = min(len(families), 3 if len(families) <= 6 else 4), list(shown.values())
    with plt.rc_context(STYLE):
        figure, panels = panel_grid(
            len(families), columns, max(1.8, 0.7 + 0.16 * len(shown)), 1.35, 0.9 + 0.4 * (len(shown) > 2), sharex=True
        )
        for place, (panel, family) in enumerate(zip(panels, families, strict=True)):
            _panel(panel, rows[rows["family"] == family], list(shown), conditions)
            panel.set_title(_title(family, prompts), fontsize=7)
            # The panel below may be one of those that are off: the lowest of each column carries the names.
            panel.tick_params(axis="x", length=0, labelbottom=place + columns >= len(families))
        for panel in panels[-columns:]:
            rotation = 90 if len(names) > 2 else 0
            panel.set_xticks(range(len(names)), names, rotation=rotation, fontsize=6.5, parse_math=False)
        panels[0].set_xlim(-0.6, len(names) - 0.4)
        figure.supylabel(label, fontsize=8)
        shared_legend(figure, panels, most_columns=4)
    return figure


def _title(family: str, prompts: Sequence[Prompt]) -> str:
    own = [prompt for prompt in prompts if prompt.family == family]
    if len(own) != 1:
        name = FAMILIES[family].display_name
        return f"{name} ({len(own)} settings)" if own else name
    title = law_title(own[0])
    return title if len(title) <= 25 else title.replace("(", "\n(", 1)


def _panel(panel: Axes, rows: pd.DataFrame, models: Sequence[str], conditions: Sequence[str]) -> None:
    """Points with intervals: one artist per condition, because a figure may have a thousand of them."""
    colors, markers = condition_colors(conditions), condition_markers(conditions)
    for shift, condition in zip(side_by_side(len(conditions), 0.24), conditions, strict=True):
        own, color = rows[rows["condition"] == condition], colors[condition]
        x = own["model"].map(models.index).to_numpy(float) + shift
        value, low, high = (own[name].to_numpy(float) for name in ("value", "ci_low", "ci_high"))
        drawn, undefined = np.isfinite(value) & (value > 0), ~np.isfinite(value)
        panel.plot(x[drawn], value[drawn], markers[condition], color=color, markersize=3, label=condition)
        # A lower end of 0 has no place on a logarithmic axis: the line then ends where the axis does.
        bounded = drawn & np.isfinite(low)
        panel.vlines(x[bounded], np.maximum(low, value * 1e-2)[bounded], high[bounded], color=color, linewidth=0.9)
        if undefined.any():
            look = {"color": color, "markersize": 4, "label": f"{condition} (undefined)"}
            top = np.full(undefined.sum(), 0.95)
            panel.plot(x[undefined], top, "x", transform=panel.get_xaxis_transform(), **look)
    floors = rows["floor"].dropna()
    if len(floors):
        look = {"color": TARGET_COLOR, "linewidth": 0.8, "linestyle": ":", "label": "perfect sampler"}
        panel.axhline(float(floors.median()), **look)
    panel.set_yscale("log")
    panel.yaxis.set_major_locator(LogLocator(numticks=5))
    # Two dozen panels with eight minor ticks per decade would take most of the time that the figure takes.
    panel.yaxis.set_minor_locator(NullLocator())
    panel.tick_params(axis="y", labelsize=6.5)
    # At least two labelled decades, so that its numbers can be read.
    low, high = panel.get_ylim()
    if math.isfinite(low) and low > 0:
        panel.set_ylim(10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high)))
