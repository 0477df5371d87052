"""Tables of NoveltyBench (Table 10 of the paper)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from pipeline.axes.novelty.aggregate import CALL_METRICS
from pipeline.axes.registry import METRICS
from pipeline.config.evaluation import BASELINES
from pipeline.report.axis_table import AxisReport
from pipeline.report.context import ReportContext
from pipeline.report.evaluations import rows_of
from pipeline.report.tables.table import (
    Measure,
    Table,
    build_table,
    detailed_table,
    existing_measures,
    measure_of,
    number_range,
    with_note,
)

DISTINCT = {False: "distinct", True: "distinct_lexical"}
UTILITY = {False: "utility", True: "utility_stand_in"}
"""Metric by whether the evaluator is a stand-in for the benchmark's."""
CALLS = tuple(measure_of(metric) for metric in CALL_METRICS)
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
    caption = "Table 10. NoveltyBench by split"
    name = "table10"
    if stand_in:
        name, caption = "table10_stand_in", f"{caption}, with stand-in evaluators (not the paper's)"
        # Models of the benchmark's own evaluators are not missing here.
        scored = set(metrics.loc[metrics["metric"].isin({measure.metric for measure in measures}), "model"])
        models = {model: display_name for model, display_name in models.items() if model in scored}
    table = build_table(name, caption, metrics, models, measures, conditions)
    sizes = []
    for measure in {measure.split: measure for measure in measures}.values():
        size = number_range([cell.n for cell in table.existing_cells(measure)], 0)
        sizes.append(f"{size} prompts ({measure.split})")
    warning = f"{STAND_IN_WARNING} " if stand_in else ""
    return with_note(
        table,
        f"{warning}Distinct: mean number of classes among a prompt's responses. Utility: the patience-discounted "
        f"rating of the first response of each class, 0 to 10. {', '.join(sizes)}. "
        "Brackets: 95% bootstrap intervals over prompts. Bold: best of the row.",
    )


def _saved(metrics: pd.DataFrame, models: Mapping[str, str]) -> str:
    """A sentence on the classifications and rewards spared over all models and conditions; empty if none are known."""
    rows = rows_of(metrics, axis="novelty", split="all")
    totals = rows[rows["model"].isin(models)].groupby("metric")["value"].sum()
    spared = [
        f"{1 - totals[calls] / totals[attempts]:.0%} of the {what}"
        for calls, attempts, what in (
            ("novelty_classifier_calls", "novelty_pairs", "pairs are not classified"),
            ("novelty_reward_calls", "novelty_responses", "responses are not rewarded"),
        )
        if totals.get(attempts, 0) > 0 and calls in totals
    ]
    return f" In all, {' and '.join(spared)}." if spared else ""


def _tables(context: ReportContext) -> list[Table | None]:
    metrics, names, conditions = context.metrics, context.names, context.conditions
    return [
        novelty_table(metrics, names, conditions, stand_in=False),
        novelty_table(metrics, names, conditions, stand_in=True),
        detailed_table(
            "novelty_calls",
            "What NoveltyBench cost",
            "Compared: by the greedy rule, with the representative of each class. Left to the classifier: not "
            "decided by equal texts or the lexical rule. Classified and rewarded: texts that come again are taken "
            "from the cache; counted with a cache that is empty at first. Paper, summed over its runs: 194 hours "
            f"of generation, partition and reward.{_saved(metrics, names)}",
            metrics,
            names,
            CALLS,
            (*conditions, *BASELINES),
        ),
    ]


REPORT = AxisReport(
    "Several responses to each prompt: how many differ in content (Distinct), and what they are worth to a reader who "
    "asks again (Utility).",
    (_tables,),
)
