"""Tables and figures of TinyBenchmarks and GSM8K: 21 and 11 of the paper."""

from pipeline.axes.retention.answers import STATISTICS
from pipeline.config.params import BASE
from pipeline.core.retention.tasks import ALL_COLUMNS
from pipeline.report.axis_report import AxisReport
from pipeline.report.evaluations import ReportContext, rows_of
from pipeline.report.figures.drawing import Drawing
from pipeline.report.paired_tests import paired_tests_table
from pipeline.report.retention import FORMAT_NOTES, split_points
from pipeline.report.table import Column, Table, TableSpec, specified

ANSWERS = TableSpec(
    "retention_answers",
    "Generated answers: length and derivations",
    [column for name in STATISTICS for column in (Column(name), Column(name, "change", "Change"))],
    "Tokens: that an answer took, the one that ends it included. With a derivation: at least one equation such as "
    "16 - 3 = 13, or a calculator annotation.",
    "Task",
)


def _tables(context: ReportContext) -> list[Table | None]:
    config, columns = context.params.retention, [Column("gp_irt"), Column("gp_irt_paper_mean"), Column("accuracy")]
    note = (
        "gp-IRT: mean over tasks with GSM8K counted once, by flexible extraction; the paper counts it twice, strict "
        "and flexible. Accuracy: unweighted mean of the items' scores, of GSM8K that of the last number of the answer. "
        f"Items from {config.source}, item parameters from {config.irt_artifact}."
        f"{FORMAT_NOTES.get(context.task_format, '')} Intervals are over items, without the method's own error (0.011 "
        "to 0.020 by task, Polo et al. 2024)."
    )
    margins, pairs = {"accuracy": context.params.tests.accuracy_margin}, [(name, BASE) for name in context.methods]
    by_task = TableSpec("table21_tasks", "Table 21 (b). Benchmarks by task", [columns[0], columns[2]], "", "Task")
    return [
        specified(TableSpec("table21_models", "Table 21 (a). Benchmarks by model", columns, note), context),
        specified(by_task, context),
        paired_tests_table(
            "retention_tests", "Tests of retention, by task", context, "retention", list(ALL_COLUMNS), margins, pairs
        ),
    ]


def _drawings(context: ReportContext) -> dict[str, Drawing]:
    own = rows_of(context.metrics, axis="retention")
    caption = (
        "Figure 11. gp-IRT by task with 95% bootstrap intervals over items. The intervals are of each condition alone; "
        "whether conditions differ is in the paired tests."
    )
    drawn = (own, context.names, context.conditions, "gp_irt", "gp-IRT", False, True)
    return {"figure11": Drawing(split_points, drawn, caption)}


REPORT = AxisReport(
    "100 items of each of five benchmarks: does a fine-tuned model still answer what its base checkpoint answers?",
    (_tables, ANSWERS),
    _drawings,
)
