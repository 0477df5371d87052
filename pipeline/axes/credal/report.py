"""The table of the sets of a model's laws."""

from pipeline.report.axis_report import AxisReport
from pipeline.report.table import Column, TableSpec

COLUMNS = (
    Column("credal_distance"),
    Column("credal_distance", "floor", "Distance of people"),
    Column("credal_distance", "change", "Change"),
    Column("credal_covered"),
)
NOTE = (
    "Distance: total variation of people's law from the nearest mixture of the laws; of people: from the mixtures of "
    "as many samples of held-out people. Covered: questions at most at the 95% quantile of that."
)
CAPTION = "Sets of a model's laws under its decoding settings, against people's law"
REPORT = AxisReport(
    "A model's laws under several decoding settings, and all mixtures of them: is people's law among them?",
    (TableSpec("credal", CAPTION, COLUMNS, NOTE),),
)
