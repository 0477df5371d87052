"""Tables and figures of structured sampling."""

from pipeline.axes.structured.figures import structured_drawings
from pipeline.axes.structured.tables import structured_tables, structured_tests_table
from pipeline.report.axis_table import AxisReport
from pipeline.report.context import ReportContext
from pipeline.report.figures.drawing import Drawing
from pipeline.report.tables.table import ListTable, Table


def _tables(context: ReportContext) -> list[Table]:
    return structured_tables(context.metrics, context.names, context.conditions, context.params.generate.ssot.enabled)


def _tests(context: ReportContext) -> list[ListTable | None]:
    params, replicates = context.params, context.params.evaluate.bootstrap_replicates
    conditions = context.conditions
    return [
        structured_tests_table(context.evaluations, context.names, conditions, params.seed, params.tests, replicates)
    ]


def _drawings(context: ReportContext) -> dict[str, Drawing]:
    return structured_drawings(context.params, context.evaluations, context.prompts)


REPORT = AxisReport(
    "Numbers from a named law: how far the samples and the probabilities are from the law, and how many answers are "
    "valid.",
    (_tables, _tests),
    _drawings,
)
