"""What fine-tuning keeps of tasks and text: Table 2, and what the tables and figures of the two axes share."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, ScalarFormatter

from pipeline.axes.paloma.metrics import SUFFIXES
from pipeline.report.evaluations import ReportContext, rows_of
from pipeline.report.figures.drawing import (
    STYLE,
    condition_colors,
    condition_markers,
    panel_grid,
    shared_legend,
    side_by_side,
)
from pipeline.report.table import (
    Column,
    Table,
    TableSpec,
    specified,
)

WITHOUT_BOS = SUFFIXES["none"]
FORMAT_NOTES = {
    "chat": " Each prompt, its few-shot examples included, is one user turn of the model's chat template.",
    "plain": " Prompts are plain text, without a chat template.",
}
"""What tables of the tasks say of the form in which they were put; all figures of a report have one."""
PANEL_COLUMNS = 3


def text_columns(*metrics: str) -> list[Column]:
    """Metrics of PALOMA, each beside its variant without BOS, which is the paper's."""
    return [Column(metric + suffix) for suffix in ("", WITHOUT_BOS) for metric in metrics]


def retention_summary(context: ReportContext) -> Table | None:
    """Table 2."""
    columns = [
        *(Column("gp_irt"), Column("gp_irt", "change", "gp-IRT difference")),
        *(Column("accuracy"), Column("accuracy", "change", "Accuracy difference")),
        *text_columns("perplexity", "bits_per_byte"),
        *(Column(f"bits_per_byte{suffix}", "change") for suffix in ("", WITHOUT_BOS)),
    ]
    note = (
        "gp-IRT: accuracy on the whole benchmarks as estimated from 100 items each, mean over tasks with GSM8K counted "
        f"once; higher is better.{FORMAT_NOTES.get(context.task_format, '')} Perplexity "
        "per token and bits per byte over all slices; lower is better. Perplexity does not compare between "
        "tokenizers, bits per byte do. Differences: fine-tuned minus base on the same items and documents. Brackets: "
        "95% intervals over items or documents."
    )
    return specified(TableSpec("table2", "Table 2. What is kept: tasks and text", columns, note), context)


def split_points(
    metrics: pd.DataFrame,
    models: Mapping[str, str],
    conditions: Sequence[str],
    metric: str,
    label: str,
    logarithmic: bool = False,
    same_axis: bool = False,
) -> Figure | None:
    """A metric by task or slice with 95% intervals, one panel per model that has it; None without any."""
    found = rows_of(metrics, metric=metric, family="")
    found = found[(found["split"] != "all") & found["condition"].isin(conditions)]
    shown = {model: name for model, name in models.items() if (found["model"] == model).any()}
    if not shown:
        return None
    splits = list(dict.fromkeys(found["split"]))
    colors, markers = condition_colors(conditions), condition_markers(conditions)
    with plt.rc_context(STYLE):
        width = 0.8 + 0.45 * len(splits)
        figure, panels = panel_grid(len(shown), PANEL_COLUMNS, width, 1.9, 1.0, sharex=True, sharey=same_axis)
        for panel, model in zip(panels, shown, strict=True):
            for shift, condition in zip(side_by_side(len(conditions), 0.22), conditions, strict=True):
                rows = rows_of(found, model=model, condition=condition)
                if len(rows):
                    x, color = np.array([splits.index(split) for split in rows["split"]]) + shift, colors[condition]
                    panel.vlines(x, rows["ci_low"], rows["ci_high"], color=color, linewidth=1.0, alpha=0.8)
                    look = {"marker": markers[condition], "color": color, "label": condition}
                    panel.plot(x, rows["value"], linestyle="", markersize=3.5, **look)
            panel.set_title(shown[model], loc="left", parse_math=False)
            panel.set_xticks(
                range(len(splits)), splits, rotation=30, ha="right", rotation_mode="anchor", parse_math=False
            )
            panel.tick_params(axis="x", length=0, labelbottom=panel in panels[-min(PANEL_COLUMNS, len(panels)) :])
            panel.set_xlim(-0.6, len(splits) - 0.4)
            if logarithmic:
                _logarithmic(panel)
            panel.grid(axis="y", color="#dddddd", linewidth=0.5)
            panel.set_axisbelow(True)
        for panel in panels[::PANEL_COLUMNS]:
            panel.set_ylabel(label)
        shared_legend(figure, panels, most_columns=5 if len(panels) > 1 else 3)
    return figure


def _logarithmic(panel: Axes) -> None:
    panel.set_yscale("log")
    low, high = panel.get_ylim()
    # Decades alone would leave a narrow range without a number.
    panel.yaxis.set_major_locator(MaxNLocator(5) if high / low < 5 else LogLocator(subs=(1, 2, 5)))
    panel.yaxis.set_major_formatter(ScalarFormatter())
    panel.yaxis.set_minor_formatter(NullFormatter())
    panel.tick_params(axis="y", which="minor", length=0)
