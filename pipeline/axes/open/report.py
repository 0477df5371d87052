"""The table of open-ended answers, and their figures."""

from pipeline.axes.open.figures import open_drawings
from pipeline.report.axis_report import AxisReport
from pipeline.report.table import Column, TableSpec

REPORT = AxisReport(
    'Requests such as "Name a random city.": how many answers the model considers, and how many it gives.',
    (
        TableSpec(
            "open_answers",
            "Answers to open-ended requests",
            (
                *(Column("valid_rate", title="Answered", axis="open"), Column("unique_fraction")),
                *(Column(name) for name in ("listed_distinct", "listed_fraction")),
                Column("listed_distinct", "change"),
            ),
            "On the list: of the 16 categories whose members can all be listed, such as months and countries. Unique "
            "rate and distinct: where a condition has more samples than base, what as many as base has would give.",
        ),
    ),
    open_drawings,
)
