"""Tables and figures of structured sampling."""

from pipeline.axes.structured.figures import structured_drawings
from pipeline.axes.structured.tables import structured_tables, structured_tests_table
from pipeline.report.axis_report import AxisReport
from pipeline.report.evaluations import ReportContext
from pipeline.report.figures.drawing import Drawing
from pipeline.report.table import Table


def _tests(context: ReportContext) -> list[Table | None]:
    params, replicates = context.params, context.params.evaluate.bootstrap_replicates
    shown = (context.names, context.conditions)
    return [structured_tests_table(context.evaluations, *shown, params.seed, params.tests, replicates)]


def _drawings(context: ReportContext) -> dict[str, Drawing]:
    return structured_drawings(context.params, context.evaluations, context.prompts)


REPORT = AxisReport(
    "Numbers from a named law: how far the samples and the probabilities are from the law, and how many answers are "
    "valid.",
    (structured_tables, _tests),
    _drawings,
)
