"""The table of multiple-choice questions, Table 20 of the paper."""

from pipeline.report.axis_report import AxisReport
from pipeline.report.table import Column, TableSpec

REPORT = AxisReport(
    "The model writes questions; the correct answer's position should be uniform over A to D.",
    (
        TableSpec(
            "table20",
            "Table 20. Multiple-choice questions: parse rate and balance of the correct answer's position",
            (
                Column("mcq_parse_rate"),
                Column("mcq_total_variation"),
                Column("mcq_total_variation", "floor", "Uniform sampler"),
            ),
            "TV: total variation distance from uniform over the questions that parse, and that of a uniform sampler of "
            "as many.",
        ),
    ),
)
