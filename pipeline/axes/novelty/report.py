"""Tables of NoveltyBench: 10 of the paper, and the cases of 11 to 19."""

from collections.abc import Sequence

from pipeline.axes.novelty.cases import novelty_cases
from pipeline.axes.registry import METRICS
from pipeline.report.axis_report import AxisReport
from pipeline.report.evaluations import ReportContext
from pipeline.report.table import Column, Table, TableSpec

STAND_IN_WARNING = (
    "Stand-ins for the benchmark's classifier and reward model give figures that are not comparable with the paper's."
)
TABLE = TableSpec(
    "table10",
    "Table 10. NoveltyBench by split",
    [
        Column(metric, title=f"{METRICS[metric].column_title}, {shown}", split=split)
        for metric in ("distinct", "utility", "distinct_lexical", "utility_stand_in")
        for split, shown in (("curated", "curated"), ("wildchat", "WildChat"))
    ],
    "Distinct: mean number of classes among a prompt's responses. Utility: the patience-discounted rating of the first "
    f"response of each class, 0 to 10. {STAND_IN_WARNING}",
)


def _cases(context: ReportContext) -> Sequence[Table]:
    return novelty_cases(context.evaluations, context.names, context.conditions)


REPORT = AxisReport(
    "Several responses to each prompt: how many differ in content (Distinct), and what they are worth to a reader who "
    "asks again (Utility).",
    (TABLE, _cases),
)
