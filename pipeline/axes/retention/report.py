"""Tables and figures of TinyBenchmarks and GSM8K."""

from pipeline.report.axis_table import AxisReport
from pipeline.report.context import ReportContext
from pipeline.report.figures.drawing import Drawing
from pipeline.report.figures.retention import retention_drawings
from pipeline.report.tables.retention import answer_tables, averages, breakdown, model_table
from pipeline.report.tables.retention_lists import estimate_table, verdict_table
from pipeline.report.tables.table import ListTable, Table


def _tables(context: ReportContext) -> list[Table | ListTable | None]:
    params, metrics, names, conditions = context.params, context.metrics, context.names, context.conditions
    significance, tests = params.tests.significance, context.tests("retention")
    return [
        model_table(metrics, names, conditions, params.retention, context.task_format),
        averages(metrics, names, conditions)["retention"],
        breakdown(metrics, names, conditions, "retention"),
        *answer_tables(metrics, names, conditions),
        verdict_table("retention", tests, metrics, names, context.methods, significance),
        estimate_table(metrics, names, conditions),
    ]


def _drawings(context: ReportContext) -> dict[str, Drawing]:
    return retention_drawings(context.params, context.metrics, context.tests("retention"))


REPORT = AxisReport(
    "100 items of each of five benchmarks: does a fine-tuned model still answer what its base checkpoint answers?",
    (_tables,),
    _drawings,
)
