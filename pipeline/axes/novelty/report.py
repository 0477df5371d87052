"""Tables of NoveltyBench: 10 of the paper, and the cases of 11 to 19."""

from pipeline.axes.novelty.cases import novelty_cases
from pipeline.axes.registry import METRICS
from pipeline.report.axis_report import AxisReport
from pipeline.report.table import Column, TableSpec

TABLE = TableSpec(
    "table10",
    "Table 10. NoveltyBench by split",
    [
        Column(metric, title=f"{METRICS[metric].column_title}, {shown}", split=split)
        for metric in ("distinct", "utility", "distinct_lexical", "utility_stand_in")
        for split, shown in (("curated", "curated"), ("wildchat", "WildChat"))
    ],
    "Distinct: mean number of classes among a prompt's responses. Utility: the patience-discounted rating of the first "
    "response of each class, 0 to 10. Stand-ins for the benchmark's classifier and reward model give figures that are "
    "not comparable with the paper's.",
)
REPORT = AxisReport(
    "Several responses to each prompt: how many differ in content (Distinct), and what they are worth to a reader who "
    "asks again (Utility).",
    (TABLE, novelty_cases),
)
