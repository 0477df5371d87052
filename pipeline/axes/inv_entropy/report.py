"""The table of Inv-Entropy."""

from pipeline.report.axis_report import AxisReport
from pipeline.report.table import Column, TableSpec

COLUMNS = (
    Column("inv_excess_nats"),
    Column("inv_excess_nats", "change", "Change"),
    Column("inv_input_dispersion"),
    Column("inv_output_dispersion"),
    Column("inv_excess_nats_auroc"),
    Column("inv_input_dispersion_auroc"),
)
NOTE = (
    "Excess: Inv-Entropy less that of identical answers, in nats. AUROC: for wrong answers; that of the requests knows "
    "no answers: the excess has to beat it."
)
REPORT = AxisReport(
    "The same question in other words: do the answers spread further than the requests do?",
    (TableSpec("inv_entropy", "Inv-Entropy of answers to perturbed questions", COLUMNS, NOTE),),
)
