"""Tables and figure of semantic calibration."""

import itertools
from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from pipeline.axes.semcal.calibration import calibration_verdict
from pipeline.config.params import BASE
from pipeline.report.axis_table import AxisReport, AxisTable, Cells, Column
from pipeline.report.context import ReportContext
from pipeline.report.figures.drawing import STYLE, TARGET_COLOR, Drawing, condition_colors, shared_legend

POINTS = ("split", "target", "size", "confidence", "frequency")
TARGETS = {"gold": "accepted answers", "people": "people"}


def _table(prefix: str, against: str) -> AxisTable:
    error, score = f"semcal_{prefix}smooth_ece", f"semcal_{prefix}brier"

    def verdict(cells: Cells, condition: str) -> str:
        if condition == BASE or error not in cells or score not in cells:
            return ""
        return calibration_verdict(cells[error]._asdict(), cells[score]._asdict())

    return AxisTable(
        f"semcal_{prefix}calibration",
        f"Semantic calibration against {against}",
        "semcal",
        (
            Column(error),
            Column(error, "floor", "SmoothECE of a calibrated model" if not prefix else "SmoothECE of people"),
            Column(error, "change", "Change"),
            Column(score),
            Column(score, "change", "Change"),
            Column(f"semcal_{prefix}accuracy"),
            Column(f"semcal_{prefix}confidence"),
            *([] if prefix else [Column("semcal_auroc")]),
        ),
        "Better than base: SmoothECE falls and the Brier score does not rise. A model that answers nonsense is sure "
        "of nothing and so has no SmoothECE; its Brier score shows it. Intervals of SmoothECE are centred on the "
        "estimate, to be read against the floor.",
        "Style",
        verdict=("Against base", verdict),
    )


def drawings(context: ReportContext) -> dict[str, Drawing]:
    """The reliability diagram of the bare answers, where there is one."""
    names, conditions = context.names, context.conditions
    points = context.evaluations.stacked("semcal", "reliability", POINTS, list(names), conditions)
    points = points[points["split"] == "all"]
    if points.empty:
        return {}
    caption = (
        "Reliability of the confidence in the most frequent class of answers, in ten bins; the area of a mark goes "
        "with the number of questions. Below the diagonal: "
        "overconfident."
    )
    return {"reliability": Drawing(reliability_diagrams, (points, names, conditions), caption)}


def reliability_diagrams(points: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]) -> Figure:
    """Frequency by confidence, a row for each model and a column for each kind of label."""
    shown = [model for model in models if (points["model"] == model).any()]
    targets = [target for target in TARGETS if (points["target"] == target).any()]
    colors = condition_colors(conditions)
    with plt.rc_context(STYLE):
        size = (3.0 * len(targets) + 0.4, 2.9 * len(shown) + 0.4)
        figure, grid = plt.subplots(len(shown), len(targets), figsize=size, squeeze=False, layout="constrained")
        for (model, target), panel in zip(itertools.product(shown, targets), grid.flatten(), strict=True):
            panel.plot((0, 1), (0, 1), color=TARGET_COLOR, linewidth=0.7, linestyle=":", zorder=0)
            of_panel = points[(points["model"] == model) & (points["target"] == target)].sort_values("confidence")
            for condition, own in of_panel.groupby("condition"):
                look = {"color": colors[condition], "linewidth": 0.9, "label": condition}
                panel.plot(own["confidence"], own["frequency"], **look)
                panel.scatter(own["confidence"], own["frequency"], s=4 + 3 * own["size"], color=colors[condition])
            panel.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal", xlabel="confidence")
            panel.set_ylabel("right" if target == "gold" else "share of people")
            panel.set_title(f"{models[model]}: {TARGETS[target]}", loc="left")
        shared_legend(figure, grid.flatten())
    return figure


REPORT = AxisReport(
    "Does a model that gives an answer in seven of ten samples give the right one seven times in ten, or that of seven "
    "in ten people?",
    (_table("", TARGETS["gold"]), _table("people_", TARGETS["people"])),
    drawings,
)
