"""The calibration curve of choices: how often an option is answered whose chance is stated."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from pipeline.axes.laws import SPLIT_TITLES
from pipeline.report.evaluations import ReportContext
from pipeline.report.figures.drawing import (
    STYLE,
    TARGET_COLOR,
    Drawing,
    condition_colors,
    condition_markers,
    panel_grid,
    shared_legend,
)


def law_drawings(context: ReportContext) -> dict[str, Drawing]:
    """The curve of every model and split, where requests were answered with one of several options."""
    columns, names = ("split", "chance", "share"), context.names
    rows = context.evaluations.stacked("laws", "options", columns, list(names), context.conditions)
    return {
        "calibration": Drawing(
            calibration_curves,
            (rows, names, context.conditions),
            "Share of the valid answers that are an option, against the option's chance: mean over the options by the "
            "nearest tenth of chance, with the 95% interval of requests. Dashed: a perfect sampler.",
        )
    }


def binned_shares(chances: np.ndarray, shares: np.ndarray) -> pd.DataFrame:
    """Mean chance and share of float64[n] options by nearest tenth of chance, and half of the share's 95% interval."""
    # 0.35, which is no binary fraction, goes with 0.4 however it has been computed.
    tenth = np.floor(10 * chances + 0.5 + 1e-9).astype(int)
    grouped = pd.DataFrame({"chance": chances, "share": shares}).groupby(tenth)
    table = grouped.mean()
    return table.assign(half_width=1.96 * grouped["share"].sem().fillna(0.0))


def calibration_curves(rows: pd.DataFrame, names: Mapping[str, str], conditions: Sequence[str]) -> Figure | None:
    """A panel for each model and split, a curve for each condition; None without a request for a choice."""
    if rows.empty:
        return None
    pairs = set(zip(rows["model"], rows["split"], strict=True))
    order = [(model, split) for model in names for split in SPLIT_TITLES if (model, split) in pairs]
    colors, markers = condition_colors(conditions), condition_markers(conditions)
    with plt.rc_context(STYLE):
        figure, panels = panel_grid(len(order), 4, 2.2, 2.2, 0.6, sharex=True, sharey=True)
        for panel, (model, split) in zip(panels, order, strict=True):
            panel.plot([0, 1], [0, 1], linestyle="--", color=TARGET_COLOR, linewidth=0.8)
            for condition in conditions:
                own = rows[(rows["model"] == model) & (rows["split"] == split) & (rows["condition"] == condition)]
                if own.empty:
                    continue
                curve = binned_shares(own["chance"].to_numpy(), own["share"].to_numpy())
                style = {"color": colors[condition], "marker": markers.get(condition, "o"), "markersize": 3}
                panel.errorbar(curve["chance"], curve["share"], curve["half_width"], label=condition, **style)
            panel.set_title(f"{names[model]}\n{SPLIT_TITLES[split]}")
            panel.set_ylim(-0.05, 1.05)
            panel.set_xlabel("chance")
            panel.set_ylabel("share of answers")
        shared_legend(figure, panels)
    return figure
