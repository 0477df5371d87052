"""Tables and figure of semantic calibration."""

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.axes.semcal.semantic_calibration import calibration_verdict
from pipeline.config.params import BASE, Params
from pipeline.report.evaluations import Evaluations, display_names
from pipeline.report.figures.drawing import STYLE, TARGET_COLOR, Drawing, condition_colors, shared_legend
from pipeline.report.tables.axis_table import AxisReport, AxisTable, Cells, Column

POINTS = ("split", "target", "size", "confidence", "frequency", "band_low", "band_high")
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


def drawings(params: Params, evaluations: Evaluations) -> dict[str, Drawing]:
    """The reliability diagram of the bare answers, where there is one."""
    names, conditions = display_names(params), params.conditions
    points = evaluations.stacked("semcal", "reliability", POINTS, list(names), conditions)
    points = points[points["split"] == "all"]
    if points.empty:
        return {}
    caption = (
        "Reliability of the confidence in the most frequent class of answers, in ten bins; the area of a mark goes "
        "with the number of questions. Bars: where 95% of a calibrated model's points lie. Below the diagonal: "
        "overconfident."
    )
    return {"reliability": Drawing(reliability_diagrams, (points, names, conditions), caption)}


def reliability_diagrams(points: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]) -> Figure:
    """Frequency by confidence, a row for each model and a column for each kind of label.

    Args:
        points: Columns model, condition, target and those of ``reliability``.
        models: Model name -> display name.
        conditions: Base and the methods, in order.
    """
    shown = [model for model in models if (points["model"] == model).any()]
    targets = [target for target in TARGETS if (points["target"] == target).any()]
    with plt.rc_context(STYLE):
        size = (3.0 * len(targets) + 0.4, 2.9 * len(shown) + 0.4)
        figure, grid = plt.subplots(len(shown), len(targets), figsize=size, squeeze=False, layout="constrained")
        for line, model in zip(grid, shown, strict=True):
            for panel, target in zip(line, targets, strict=True):
                own = points[(points["model"] == model) & (points["target"] == target)]
                _panel(panel, own, conditions)
                panel.set_title(f"{models[model]}: {TARGETS[target]}", loc="left")
                panel.set_xlabel("confidence")
                panel.set_ylabel("right" if target == "gold" else "share of people")
        shared_legend(figure, grid.flatten())
    return figure


def _panel(panel: Axes, points: pd.DataFrame, conditions: Sequence[str]) -> None:
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


REPORT = AxisReport(
    "Does a model that gives an answer in seven of ten samples give the right one seven times in ten, or that of seven "
    "in ten people?",
    (_table("", TARGETS["gold"]), _table("people_", TARGETS["people"])),
    drawings,
)
