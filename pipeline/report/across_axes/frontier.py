"""Calibration against what it costs: the table of all methods, Table 1, and the method to choose."""

import math
from collections.abc import Mapping

import pandas as pd

from pipeline.axes.registry import SHORT_SPLIT_TITLES, SPLITS
from pipeline.core.statistics.frontier import Choice, choose_method
from pipeline.report.evaluations import ReportContext, rows_of
from pipeline.report.retention import WITHOUT_BOS
from pipeline.report.table import RATIO_TITLE, Column, Table, TableSpec, specified

W1 = "wasserstein_1_normalised"
BITS_PER_BYTE = ("bits_per_byte", f"bits_per_byte{WITHOUT_BOS}")
COSTS = ("anchor_kl_nats", *BITS_PER_BYTE)
"""By which methods are chosen, the first that all candidates have."""
CHOSEN = "to choose"
GENERATIVE_SUMMARY = TableSpec(
    "table1",
    "Table 1. Diversity and balance of what models generate beyond numbers",
    (
        *(Column(name) for name in ("top_p_support_size", "unique_fraction", "mcq_total_variation")),
        Column("mcq_total_variation", "floor", "Uniform sampler"),
        *(
            Column(name, title=f"NoveltyBench {title}")
            for name, title in (("utility", "utility"), ("utility_stand_in", "utility (stand-in)"))
        ),
    ),
    "Support size: first-step tokens, most probable first, that hold 90% of the probability, mean over prompts. Unique "
    "output rate: distinct answers over all answers. TV: distance of the correct answer's position from uniform over "
    "parseable questions. NoveltyBench utility: mean over the prompts of both splits; a stand-in's is not comparable "
    "with the paper's.",
)


def chosen_methods(context: ReportContext, tests: pd.DataFrame | None) -> dict[str, Choice]:
    """The method to choose for each model with W1 of a method.

    ``tests`` are paired tests of structured sampling, columns split, metric, model, condition, against and verdict.
    """
    methods, found = context.methods, {}
    aggregates = rows_of(context.metrics, family="")
    values = {
        (row.model, row.condition, row.metric): row.value for row in rows_of(aggregates, split="all").itertuples()
    }
    distances = rows_of(aggregates, axis="structured", metric=W1)
    for model in context.names:
        own = distances[(distances["model"] == model) & distances["condition"].isin(methods)]
        if own.empty:
            continue
        by_split = {
            split: {
                row.condition: (row.value, row.ci_low, row.ci_high)
                for row in sorted(rows_of(own, split=split).itertuples(), key=lambda row: methods.index(row.condition))
            }
            for split in SPLITS["structured"]
            if (own["split"] == split).any()
        }
        verdicts = {split: _verdicts(tests, model, split, methods) for split in by_split}
        for cost in (*COSTS, None):
            prices = {name: values.get((model, name, cost), math.nan) for name in methods} if cost else {}
            choice = choose_method(by_split, verdicts, prices, context.params.tests.wasserstein_margin)
            if cost is None or all(math.isfinite(prices[name]) for name in choice.candidates):
                found[model] = choice
                break
    return found


def _verdicts(tests: pd.DataFrame | None, model: str, split: str, methods: tuple[str, ...]) -> dict:
    """What tests of W1 say of pairs of methods, by the pair."""
    if tests is None:
        return {}
    rows = rows_of(tests, model=model, split=split, metric=W1)
    rows = rows[rows["condition"].isin(methods) & rows["against"].isin(methods)]
    return rows.set_index(["condition", "against"])["verdict"].to_dict()


def frontier_table(context: ReportContext, choices: Mapping[str, Choice]) -> Table | None:
    """Calibration, what is kept and what carries over, and the method to choose; None without W1."""
    distances = [
        Column(W1, field, f"{title}, {SHORT_SPLIT_TITLES[split]}", split)
        for split in reversed(SPLITS["structured"])
        for title, field in (("W1", "value"), (RATIO_TITLE, "ratio"))
    ]
    kept = ("accuracy_difference", "mcq_parse_rate", "unique_fraction", "top_p_support_size")
    columns = [
        *distances,
        Column("valid_rate", title="Valid rate, OOD", split="ood"),
        *(Column(metric) for metric in (*COSTS, *kept)),
    ]

    def verdict(cells: Mapping, condition: str) -> str:
        models = {row.model for row in cells.values()}
        return CHOSEN if any(choices[model].method == condition for model in models & choices.keys()) else ""

    note = (
        f"{RATIO_TITLE}: W1 over what a perfect sampler of as many answers scores (in brackets). Differences: the "
        "method less base, paired. Divergence: KL per token from base's law on held-out instructions. To choose: of "
        "the methods that are not shown to be worse calibrated than another on either split, the one that moved least "
        "from base: by this divergence, or else by bits per byte."
    )
    if not (rows_of(context.metrics, axis="structured")["metric"] == W1).any():
        return None
    spec = TableSpec("frontier", "Calibration, and what it costs", columns, note, verdict=("Choice", verdict))
    return specified(spec, context, context.conditions)
