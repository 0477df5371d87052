"""Tables and figures of TinyBenchmarks and GSM8K: 21 and 11 of the paper."""

from collections.abc import Mapping, Sequence

import pandas as pd

from pipeline.axes.retention.answers import STATISTICS
from pipeline.config.retention import RetentionConfig
from pipeline.report.axis_table import AxisReport, AxisTable, Column
from pipeline.report.context import ReportContext
from pipeline.report.evaluations import rows_of
from pipeline.report.figures.drawing import Drawing
from pipeline.report.figures.retention import MARGIN_NOTE, difference_points, split_points
from pipeline.report.tables.retention import (
    ACCURACY,
    FORMAT_NOTES,
    GP_IRT,
    GSM8K_ACCURACY,
    GSM8K_NOTE,
    average_table,
    is_gsm8k_alone,
    split_table,
)
from pipeline.report.tables.retention_lists import verdict_table
from pipeline.report.tables.table import ListTable, Table, build_table, existing_measures, measure_of, with_note

GP_IRT_PAPER_MEAN = measure_of("gp_irt_paper_mean")


def model_table(
    metrics: pd.DataFrame,
    models: Mapping[str, str],
    conditions: Sequence[str],
    config: RetentionConfig,
    task_format: str = "",
) -> Table | None:
    """Table 21, first part: mean gp-IRT by model with either mean, or GSM8K alone; None where nothing was evaluated."""
    form = FORMAT_NOTES.get(task_format, "")
    # Counted twice, both means are the same.
    means = [GP_IRT, GP_IRT_PAPER_MEAN] if config.gsm8k == "once" else [GP_IRT]
    caption, measures = "Table 21 (a). TinyBenchmarks by model", existing_measures(metrics, [*means, ACCURACY])
    note = (
        f"gp-IRT: mean over tasks with GSM8K counted {config.gsm8k}; once is flexible extraction, and the paper counts "
        "it twice, strict and flexible. Accuracy: unweighted mean of the items' scores. Items from "
        f"{config.source}, item parameters from {config.irt_artifact}.{form} Brackets: 95% bootstrap intervals over "
        "items, without the method's own error (0.011 to 0.020 by task, Polo et al. 2024). Bold: best of the row."
    )
    if is_gsm8k_alone(metrics):
        caption, measures = "GSM8K by model", [GSM8K_ACCURACY]
        brackets = "Brackets: 95% Wilson intervals. Bold: best of the row."
        note = f"{GSM8K_NOTE}{form} Problems from {config.source}. {brackets}"
    if not measures:
        return None
    return with_note(build_table("table21_models", caption, metrics, models, measures, conditions), note)


ANSWERS = AxisTable(
    "retention_answers",
    "Generated answers: length and derivations",
    "retention",
    [column for name in STATISTICS for column in (Column(name), Column(name, "change", "Change"))],
    "Tokens: that an answer took, the one that ends it included. With a derivation: at least one equation such as "
    "16 - 3 = 13, or a calculator annotation.",
    "Task",
    intervals="Brackets: 95% bootstrap intervals over items, of shares of answers Wilson's. Change: fine-tuned minus "
    "base, on the same items.",
)


def _tables(context: ReportContext) -> list[Table | ListTable | None]:
    params, shown = context.params, (context.metrics, context.names, context.conditions)
    tasks = ("Table 21 (b). TinyBenchmarks by task", [GP_IRT, ACCURACY], "Task")
    if is_gsm8k_alone(context.metrics):
        tasks = ("GSM8K by extraction", [GSM8K_ACCURACY], "Extraction")
    by_task = "gp-IRT by model and task, the figures of Figure 11"
    return [
        model_table(*shown, params.retention, context.task_format),
        average_table("table21_tasks", *shown, *tasks, "items"),
        split_table("retention_by_task", *shown, by_task, GP_IRT, "items"),
        verdict_table("retention", context.tests("retention"), *shown[:2], context.methods, params.tests.significance),
    ]


def _drawings(context: ReportContext) -> dict[str, Drawing]:
    names, conditions, own = context.names, context.conditions, rows_of(context.metrics, axis="retention")
    return {
        "figure11": Drawing(
            split_points,
            (own, names, conditions, "gp_irt", "gp-IRT", False, True),
            "Figure 11. gp-IRT by task with 95% bootstrap intervals over items. The intervals are of each condition "
            "alone; whether conditions differ is in the paired tests.",
        ),
        "retention_differences": Drawing(
            difference_points,
            (context.tests("retention"), names, conditions, "score, fine-tuned − base"),
            f"Paired differences from base by task, with 95% intervals. {MARGIN_NOTE}",
        ),
    }


REPORT = AxisReport(
    "100 items of each of five benchmarks: does a fine-tuned model still answer what its base checkpoint answers?",
    (_tables, ANSWERS),
    _drawings,
)
