"""Tables and figures of structured sampling."""

from pipeline.axes.structured.figures import structured_drawings
from pipeline.axes.structured.tables import structured_tables
from pipeline.report.axis_report import AxisReport
from pipeline.report.evaluations import ReportContext
from pipeline.report.figures.drawing import Drawing


def _drawings(context: ReportContext) -> dict[str, Drawing]:
    return structured_drawings(context.params, context.evaluations, context.prompts)


REPORT = AxisReport(
    "Numbers from a named law: how far the samples and the probabilities are from the law, and how many answers are "
    "valid.",
    (structured_tables,),
    _drawings,
)
