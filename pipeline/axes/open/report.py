"""Tables and figures of open-ended answers."""

from pipeline.axes.open.figures import open_drawings
from pipeline.axes.open.stated import open_stated_table
from pipeline.report.axis_report import AxisReport
from pipeline.report.evaluations import ReportContext
from pipeline.report.table import Column, Table, TableSpec

OPEN = TableSpec(
    "open_answers",
    "Answers to open-ended requests",
    (
        Column("valid_rate", title="Answered", axis="open"),
        Column("unique_fraction"),
        Column("effective_answers_median"),
        Column("answer_entropy_nats"),
        Column("unique_fraction_case_folded"),
        Column("effective_answers_case_folded_median"),
    ),
    "Unique rate: where a condition has more samples than base, what as many as base has would give. Effective "
    "answers: exponential of the entropy of the answers' law, which is corrected for the number of samples (Chao, Wang "
    "and Jost 2013); the median over prompts, because where nearly all answers differ it is an extrapolation that "
    "would carry a mean. Case-folded: answers that differ in case alone count as one.",
)


def _stated(context: ReportContext) -> list[Table | None]:
    return [open_stated_table(context.evaluations, context.names, context.conditions)]


REPORT = AxisReport(
    'Requests such as "Name a random city.": how many answers the model considers, and how many it gives.',
    (OPEN, _stated),
    open_drawings,
)
