"""The table of uncertainty."""

from pipeline.axes.uncertainty.metrics import TITLES
from pipeline.report.axis_report import AxisReport
from pipeline.report.table import Column, TableSpec

REPORT = AxisReport(
    "Is a model unsure where people disagree, and where it is wrong?",
    (
        TableSpec(
            "uncertainty",
            "Measures of uncertainty against people's disagreement and against wrong answers",
            (
                Column("uncertainty_{row}_spearman"),
                Column("uncertainty_{row}_spearman", "floor", "Ceiling"),
                Column("uncertainty_{row}_spearman", "change", "Change"),
                Column("uncertainty_{row}_auroc"),
                Column("uncertainty_{row}_auroc", "change", "Change"),
            ),
            "Spearman: with the entropy of people's answers, within questions with as many options; of six measures "
            "one may stand out by chance. Ceiling: the same correlation of two halves of people. AUROC: for wrong "
            "answers.",
            "Measure",
            TITLES,
        ),
    ),
)
