"""Tables and figures of text that is read: PALOMA."""

from pipeline.report.axis_table import AxisReport
from pipeline.report.context import ReportContext
from pipeline.report.figures.drawing import Drawing
from pipeline.report.figures.retention import paloma_drawings
from pipeline.report.tables.retention import averages, breakdown, perplexity_table
from pipeline.report.tables.retention_lists import verdict_table
from pipeline.report.tables.table import ListTable, Table


def _tables(context: ReportContext) -> list[Table | ListTable | None]:
    params, metrics, names, conditions = context.params, context.metrics, context.names, context.conditions
    significance, tests = params.tests.significance, context.tests("paloma")
    return [
        perplexity_table(metrics, names, conditions, params.paloma),
        averages(metrics, names, conditions)["paloma"],
        breakdown(metrics, names, conditions, "paloma"),
        verdict_table("paloma", tests, metrics, names, context.methods, significance),
    ]


def _drawings(context: ReportContext) -> dict[str, Drawing]:
    return paloma_drawings(context.params, context.metrics, context.tests("paloma"))


REPORT = AxisReport("Held-out text of several sources: how well the model predicts it.", (_tables,), _drawings)
