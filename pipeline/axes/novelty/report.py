"""Tables of NoveltyBench: 10 of the paper, and 11 to 19, its qualitative cases."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from pipeline.axes.novelty.cases import novelty_cases
from pipeline.axes.novelty.metrics import DISTINCT, UTILITY
from pipeline.axes.registry import METRICS
from pipeline.report.axis_table import AxisReport
from pipeline.report.context import ReportContext
from pipeline.report.evaluations import rows_of
from pipeline.report.tables.table import (
    ListTable,
    Measure,
    Table,
    build_table,
    existing_measures,
    measure_of,
    number_range,
    with_note,
)

STAND_IN_WARNING = (
    "A stand-in for the benchmark's classifier and reward model gave the NoveltyBench figures, for machines without "
    "their weights: they are not comparable with the paper's."
)


def utility_measure(metrics: pd.DataFrame, split: str) -> Measure:
    """The benchmark's utility where any model has it, else the stand-in's, titled so."""
    found = rows_of(metrics, axis="novelty", family="")["metric"]
    stand_in = not (found == UTILITY[False]).any() and (found == UTILITY[True]).any()
    utility = measure_of(UTILITY[bool(stand_in)], split)
    return replace(utility, title=f"NoveltyBench {utility.title[0].lower()}{utility.title[1:]}")


def novelty_table(
    metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str], stand_in: bool
) -> Table | None:
    """Table 10, of the benchmark's evaluators or of the stand-ins; None where these gave nothing."""
    measures = [
        measure_of(metric, split, title=f"{METRICS[metric].column_title}, {shown}")
        for metric in (DISTINCT[stand_in], UTILITY[stand_in])
        for split, shown in (("curated", "curated"), ("wildchat", "WildChat"))
    ]
    measures = existing_measures(metrics, measures)
    if not measures:
        return None
    name, caption = "table10", "Table 10. NoveltyBench by split"
    if stand_in:
        name, caption = "table10_stand_in", f"{caption}, with stand-in evaluators (not the paper's)"
        # Models of the benchmark's own evaluators are not missing here.
        scored = set(metrics.loc[metrics["metric"].isin({measure.metric for measure in measures}), "model"])
        models = {model: display_name for model, display_name in models.items() if model in scored}
    table = build_table(name, caption, metrics, models, measures, conditions)
    sizes = {m.split: number_range([cell.n for cell in table.existing_cells(m)], 0) for m in measures}
    prompts = ", ".join(f"{size} prompts ({split})" for split, size in sizes.items())
    return with_note(
        table,
        f"{f'{STAND_IN_WARNING} ' if stand_in else ''}Distinct: mean number of classes among a prompt's responses. "
        "Utility: the patience-discounted rating of the first response of each class, 0 to 10. "
        f"{prompts}. Brackets: 95% bootstrap intervals over prompts. Bold: best of the row.",
    )


def _tables(context: ReportContext) -> list[Table | ListTable | None]:
    shown = context.metrics, context.names, context.conditions
    return [
        novelty_table(*shown, stand_in=False),
        novelty_table(*shown, stand_in=True),
        *novelty_cases(context.evaluations, context.names, context.conditions),
    ]


REPORT = AxisReport(
    "Several responses to each prompt: how many differ in content (Distinct), and what they are worth to a reader who "
    "asks again (Utility).",
    (_tables,),
)
