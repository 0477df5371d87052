"""The table of agreement with people."""

from pipeline.report.axis_report import AxisReport
from pipeline.report.table import Column, TableSpec

COLUMNS = (
    Column("human_tv"),
    Column("human_tv", "floor", "TV of people"),
    Column("human_tv", "change", "Change"),
    Column("human_within_band"),
    Column("human_recall"),
)
NOTE = (
    "TV: total variation of the model's answers from those of the people asked; of people: what as many held-out "
    "people score in the model's place, whose 95% quantile is the band."
)
REPORT = AxisReport(
    "Does the model answer questions as people do, in the same shares?",
    (TableSpec("human", "Agreement with people", COLUMNS, NOTE, "Style"),),
)
