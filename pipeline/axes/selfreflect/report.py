"""The table of summaries."""

from pipeline.report.axis_report import AxisReport
from pipeline.report.table import Cells, Column, TableSpec


def judge_verdict(cells: Cells, condition: str) -> str:
    """Whether the judge tells a complete summary from one of another question; without that there is no verdict."""
    told = cells.get("selfreflect_told_apart")
    if told is None or not told.ci_low > 0:
        return "the judge cannot tell perfect from null: no verdict"
    helps = cells["selfreflect_gain"].ci_low > 0
    return "seeing the answers helps" if helps else "seeing the answers is not shown to help"


COLUMNS = (
    Column("selfreflect_sampled"),
    Column("selfreflect_sampled", "change", "Change"),
    *(Column(f"selfreflect_{name}") for name in ("direct", "gain", "perfect", "null", "told_apart")),
)
NOTE = (
    "Distance of a judge's law of a hidden word given a summary from its law given the list of answers; lower is "
    "better. Sampled: the model saw its answers; direct: it did not; perfect: their counts in words; null: the summary "
    "of another question."
)
REPORT = AxisReport(
    "A model says in a sentence or two what it answers: how much of its distribution does a reader learn?",
    (TableSpec("selfreflect", "Summaries of a model's answers", COLUMNS, NOTE, verdict=("Verdict", judge_verdict)),),
)
