"""Tables and figures of structured sampling."""

from pipeline.axes.structured.figures import structured_drawings
from pipeline.axes.structured.tables import structured_tables
from pipeline.report.axis_report import AxisReport

REPORT = AxisReport(
    "Numbers from a named law: how far the samples and the probabilities are from the law, and how many answers are "
    "valid.",
    (structured_tables,),
    structured_drawings,
)
