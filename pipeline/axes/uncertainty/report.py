"""Tables of uncertainty."""

from pipeline.axes.uncertainty.measures import AUDITED, MEASURES
from pipeline.axes.uncertainty.metrics import TITLES
from pipeline.report.axis_table import AxisReport, AxisTable, Column

REPORT = AxisReport(
    "Is a model unsure where people disagree, and where it is wrong?",
    (
        AxisTable(
            "uncertainty",
            "Measures of uncertainty against people's disagreement and against wrong answers",
            "uncertainty",
            (
                Column("uncertainty_{row}_spearman"),
                Column("uncertainty_{row}_p", "p"),
                Column("uncertainty_{row}_spearman", "change", "Change"),
                Column("uncertainty_ceiling"),
                Column("uncertainty_{row}_auroc"),
                Column("uncertainty_{row}_auroc", "change", "Change"),
            ),
            "Spearman: with the entropy of people's answers, within questions with as many options. p: permutation "
            "test, adjusted for the eight measures. Ceiling: the same correlation of two halves of people. AUROC: for "
            "wrong answers.",
            "Measure",
            {name: TITLES[name] for name in MEASURES},
        ),
        AxisTable(
            "uncertainty_length",
            "What of an AUROC is the length of answers",
            "uncertainty",
            (
                Column("length_{row}_spearman", title="Measure and length"),
                Column("length_right_spearman", title="Right and length"),
                Column("length_{row}_auroc", title="AUROC"),
                Column("length_{row}_auroc_within", title="AUROC within lengths"),
            ),
            "Where both a measure and being wrong go with length, an AUROC is length's; within fifths of answers by "
            "length it is not.",
            "Measure",
            {name: TITLES[name] for name in AUDITED},
        ),
    ),
)
