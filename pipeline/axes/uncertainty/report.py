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
                Column("uncertainty_{row}_p", "p"),
                Column("uncertainty_{row}_spearman", "change", "Change"),
                Column("uncertainty_ceiling"),
                Column("uncertainty_{row}_auroc"),
                Column("uncertainty_{row}_auroc", "change", "Change"),
                Column("length_{row}_auroc_within", title="AUROC within lengths"),
            ),
            "Spearman: with the entropy of people's answers, within questions with as many options. p: permutation "
            "test, adjusted for the eight measures. Ceiling: the same correlation of two halves of people. AUROC: for "
            "wrong answers; within fifths of them by length: what it loses there, length gave it.",
            "Measure",
            TITLES,
        ),
    ),
)
