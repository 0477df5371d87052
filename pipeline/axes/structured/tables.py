"""Tables of structured sampling: 6 to 9, calibration, the exact law, and paired tests."""

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import pandas as pd

from pipeline.axes.registry import METRICS, SHORT_SPLIT_TITLES
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.condition_tests import (
    SSOT_PAIRS,
    TESTED,
    adjusted_by_question,
    comparison_verdict,
    method_pairs,
)
from pipeline.core.statistics.sign_flips import sign_flip_effect
from pipeline.report.evaluations import ReportContext, rows_of
from pipeline.report.table import (
    DASH,
    RATIO_TITLE,
    Column,
    Table,
    TableSpec,
    interval_text,
    number_text,
    probability_text,
    records_table,
    specified,
)

SPLIT_CAPTIONS = {"ood": "held-out (OOD) families", "unseen": "unseen parameters"}
_RATIO = f"{RATIO_TITLE}: times what a perfect sampler of as many answers scores (in brackets)."
_UNDEFINED = f"{DASH}: undefined, because at least one family has no valid generation."


def _with_ratio(metric: str, split: str = "") -> tuple[Column, Column]:
    return Column(metric, split=split), Column(metric, "ratio", split=split)


def sampled_table(number: int, caption: str, split: str, *further: str) -> TableSpec:
    """Tables 6 to 9 of the paper: sampled W1, further metrics and valid rate of one split."""
    columns = [Column(metric, split=split) for metric in (*further, "ks_at_100_all", "valid_rate")]
    return TableSpec(
        f"table{number}",
        f"Table {number}. {caption}{SPLIT_CAPTIONS[split]}",
        (*_with_ratio("wasserstein_1_normalised", split), *columns, Column("valid_rate", "n", "Answers", split)),
        f"{_RATIO} W1 of the valid answers; logit KL: mean across families, as the paper's caption says. KS@100: "
        "share of requests with 90% readable answers that pass a Kolmogorov-Smirnov test; a perfect sampler's is 1. "
        "Intervals: "
        "bootstrap over families, prompts and, of distances of samples, the samples. With one prompt per family, as in "
        f"the paper's selection of unseen parameters, resampling families is all there is. {_UNDEFINED}",
    )


PAPER_TABLES = (
    sampled_table(6, "Structured sampling on ", "ood", "logit_kl_nats"),
    sampled_table(7, "Structured sampling with ", "unseen", "logit_kl_nats"),
)
SSOT_TABLES = [
    sampled_table(number, "String Seed of Thought (SSOT) beside base and soft: ", split)
    for number, split in ((8, "ood"), (9, "unseen"))
]
CALIBRATION_TABLE = TableSpec(
    "calibration",
    "Calibration with sample sizes and perfect samplers",
    (
        Column("pit_wasserstein_1_all_answers", "n", "Answers"),
        Column("pit_wasserstein_1", "n", "Valid"),
        *_with_ratio("pit_wasserstein_1_all_answers"),
        *_with_ratio("pit_wasserstein_1"),
    ),
    f"{_RATIO} PIT: every answer replaced by the target's probability below it, uniform for a perfect sampler, so that "
    "W1 is finite for every family. Invalid counted: an invalid answer counts with distance 1, more than any valid one "
    f"can; W1 is of valid answers only. {_UNDEFINED}",
    "Split",
)
EXACT_TABLE = TableSpec(
    "exact",
    "The exact law beside the sampled figures",
    (
        Column("wasserstein_1_normalised", title="W1, sampled"),
        Column("exact_wasserstein_1_normalised", title="W1 in the window, computed"),
        Column("valid_rate", title="Valid rate, sampled"),
        Column("exact_support_rate", title="In the support, computed"),
        Column("logit_kl_rounded_law_nats"),
    ),
    "Computed: from the model's probabilities of digit prefixes, without sampling and with tokens that no plain "
    "decimal has left out. The middle of certified bounds, whose ends are in per_prompt.parquet of the evaluation. The "
    "computed W1 has both laws clipped to the window between the target's 0.001 and 0.999 quantiles, as the paper's "
    "grid does; samples are not clipped.",
    "Split",
)


def structured_tables(context: ReportContext) -> list[Table | None]:
    """All tables of the axis in page order; 8 and 9 where SSOT was evaluated."""
    tables = [specified(spec, context, context.conditions) for spec in PAPER_TABLES]
    tables.append(specified(CALIBRATION_TABLE, context))
    if (context.metrics["metric"] == "exact_support_rate").any():
        tables.append(specified(EXACT_TABLE, context, context.conditions))
    if len(rows_of(context.metrics, axis="structured", condition="ssot")):
        # Soft may not be among the methods.
        compared = [condition for condition in ("base", "soft", "ssot") if condition in (*context.conditions, "ssot")]
        tables += [specified(spec, context, compared) for spec in SSOT_TABLES]
    return [*tables, comparison_table(context)]


def comparison_records(context: ReportContext) -> pd.DataFrame:
    """Paired tests of ``method_pairs`` and SSOT_PAIRS on TESTED. Families are the pairs of the test: prompt by prompt
    would reject far too often where they differ."""
    evaluations, tests = context.evaluations, context.params.tests
    margins = {TESTED[0]: tests.wasserstein_margin, **dict.fromkeys(TESTED[1:], tests.logit_kl_margin)}
    pairs, records = (*method_pairs(context.conditions), *SSOT_PAIRS), []
    for split, metric, model, pair in product(SPLIT_CAPTIONS, TESTED, context.names, pairs):
        sides = [evaluations.by_unit("structured", split, metric, model, name) for name in pair]
        if any(side is None for side in sides):
            continue
        differences = sides[0] - sides[1]
        undefined = int(differences.isna().sum())
        rng = random_stream(context.params.seed, "condition tests", model, split, *pair, metric)
        effect = sign_flip_effect(differences.to_numpy()[: 0 if undefined else None], rng)
        labels = {"split": split, "metric": metric, "model": model}
        rows = (rows_of(evaluations.metrics, axis="structured", **labels, family="", condition=name) for name in pair)
        floors = [float(row["floor"].iloc[0]) for row in rows]
        record = {**labels, "condition": pair[0], "against": pair[1], "families": len(differences)}
        record |= {"undefined": undefined, "difference": effect.estimate, "ci_low": effect.ci_low}
        record |= {"ci_high": effect.ci_high, "margin": margins[metric], "floor_difference": floors[0] - floors[1]}
        records.append(record | {"p": effect.p})
    table = pd.DataFrame(records)
    if records:
        table["p_adjusted"] = adjusted_by_question(table)
        table["verdict"] = [
            comparison_verdict(
                (row.ci_low, row.ci_high), row.p_adjusted, tests.significance, row.margin, row.floor_difference
            )
            for row in table.itertuples()
        ]
    return table


def comparison_table(context: ReportContext) -> Table | None:
    """The tests as a table; None without pairs."""
    return records_table(
        "structured_tests",
        "Paired tests between conditions, structured sampling",
        comparison_records(context).assign(axis="structured"),
        comparison_columns(context.names),
        4,
        "Difference: mean over families of the differences of their prompts, first condition minus second; below 0 the "
        "first is closer to the target. p: the signs of the families' differences are flipped; with 6 families it is "
        "at least 0.031. Interval: 95%, the inversion of that test (p is at most .05 where it leaves out 0), without "
        "adjustment. Adjusted: over the splits of the same question (Holm), level "
        f"{context.params.tests.significance:g}. Better or worse: adjusted p at most the level, and the whole interval "
        "beyond the margin; no relevant difference: the whole interval within it; cannot tell: neither. Perfect "
        "samplers: the difference of perfect samplers of these sizes, by which the margin is widened. The tests are of "
        "these trained models, not of the methods over training seeds.",
    )


def comparison_columns(models: Mapping[str, str]) -> dict[str, Callable[[Any], str]]:
    """Texts of a test, by title."""
    return {
        "Split": lambda row: SHORT_SPLIT_TITLES.get(row.split, row.split),
        "Metric": lambda row: METRICS[row.metric].title,
        "Model": lambda row: models[row.model],
        "Conditions": lambda row: f"{row.condition} − {row.against}",
        "Families": lambda row: str(row.families),
        "Difference": lambda row: number_text(row.difference, sign="+"),
        "95% interval": lambda row: interval_text(row.ci_low, row.ci_high),
        "Verdict": lambda row: f"undefined: {row.undefined} families" if row.verdict == "undefined" else row.verdict,
        "Adjusted p": lambda row: probability_text(row.p_adjusted),
        "p": lambda row: probability_text(row.p),
        "Margin": lambda row: f"{row.margin:g}",
        "Perfect samplers": lambda row: number_text(row.floor_difference, sign="+"),
    }
