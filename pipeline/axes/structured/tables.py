"""Tables of structured sampling: 6 to 9, calibration, the exact law, and paired tests."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from pipeline.axes.registry import METRICS, SHORT_SPLIT_TITLES
from pipeline.config.retention import TestsConfig
from pipeline.core.statistics.condition_tests import SSOT_PAIRS, TESTED, compare_conditions, method_pairs
from pipeline.report.evaluations import Evaluations, ReportContext, rows_of
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

COMPARED = ("base", "soft", "ssot")
"""Conditions of Tables 8 and 9, of which soft may not be among the methods."""
TESTS_TABLE = "structured_tests"
SPLIT_CAPTIONS = {"ood": "held-out (OOD) families", "unseen": "unseen parameters"}
_RATIO = f"{RATIO_TITLE}: times what a perfect sampler of as many answers scores (in brackets)."
_UNDEFINED = f"{DASH}: undefined, because at least one family has no valid generation."


def _with_ratio(metric: str, split: str = "") -> tuple[Column, Column]:
    return Column(metric, split=split), Column(metric, "ratio", split=split)


def sampled_table(number: int, caption: str, split: str, *further: str) -> TableSpec:
    """Tables 6 to 9 of the paper: sampled W1, further metrics and valid rate of one split."""
    columns = [Column(metric, split=split) for metric in (*further, "valid_rate")]
    return TableSpec(
        f"table{number}",
        f"Table {number}. {caption}{SPLIT_CAPTIONS[split]}",
        (*_with_ratio("wasserstein_1_normalised", split), *columns, Column("valid_rate", "n", "Answers", split)),
        f"{_RATIO} W1 of the valid answers; logit KL: mean across families, as the paper's caption says. Intervals: "
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
        Column("wasserstein_1_window_normalised", title="W1 in the window, sampled"),
        Column("exact_wasserstein_1_normalised", title="W1 in the window, computed"),
        Column("valid_rate", title="Valid rate, sampled"),
        Column("exact_support_rate", title="In the support, computed"),
        Column("logit_kl_rounded_law_nats"),
    ),
    "Computed: from the model's probabilities of digit prefixes, without sampling and with tokens that no plain "
    "decimal has left out. The middle of certified bounds, whose ends are in per_prompt.parquet of the evaluation. W1 "
    "here has samples and law clipped to the window between the target's 0.001 and 0.999 quantiles, as the paper's "
    "grid does.",
    "Split",
)


def structured_tables(context: ReportContext) -> list[Table | None]:
    """All tables of the axis in page order; 8 and 9 where SSOT was evaluated."""
    reported = set(context.metrics["metric"])
    tables = [specified(spec, context, context.conditions) for spec in PAPER_TABLES]
    if "pit_wasserstein_1" in reported:
        tables.append(specified(CALIBRATION_TABLE, context))
    if "exact_support_rate" in reported:
        tables.append(specified(EXACT_TABLE, context, context.conditions))
    if len(rows_of(context.metrics, axis="structured", condition="ssot")):
        compared = [condition for condition in COMPARED if condition in (*context.conditions, "ssot")]
        tables += [specified(spec, context, compared) for spec in SSOT_TABLES]
    return [*tables, comparison_table(context)]


def per_prompt_metrics(evaluations: Evaluations, models: Mapping[str, str], conditions: Sequence[str]) -> pd.DataFrame:
    """Columns model, condition, prompt_id, split, family and TESTED (NaN where a condition lacks one)."""
    names = ("prompt_id", "split", "family")
    return evaluations.stacked("structured", "per_prompt", names, models, conditions, optional=TESTED)


def perfect_sampler_scores(metrics: pd.DataFrame) -> dict[tuple[str, str, str, str], float]:
    """Floor of each aggregate of TESTED by (model, condition, split, metric)."""
    aggregates = rows_of(metrics, axis="structured", family="")
    chosen = aggregates[aggregates["metric"].isin(TESTED)]
    columns = ["model", "condition", "split", "metric"]
    return dict(zip(chosen[columns].itertuples(index=False, name=None), chosen["floor"], strict=True))


def margins_of(settings: TestsConfig) -> dict[str, float]:
    """Smallest difference that matters by metric of TESTED."""
    return dict.fromkeys(TESTED, settings.wasserstein_margin) | {"logit_kl_nats": settings.logit_kl_margin}


def comparison_table(context: ReportContext) -> Table | None:
    """Paired tests of ``method_pairs`` and SSOT_PAIRS; None without pairs."""
    params, evaluations, conditions = context.params, context.evaluations, context.conditions
    significance = params.tests.significance
    tests = compare_conditions(
        per_prompt_metrics(evaluations, context.names, (*conditions, "ssot")),
        (*method_pairs(conditions), *SSOT_PAIRS),
        perfect_sampler_scores(evaluations.metrics),
        margins_of(params.tests),
        params.seed,
        significance,
        params.evaluate.bootstrap_replicates,
    )
    return records_table(
        TESTS_TABLE,
        "Paired tests between conditions, structured sampling",
        tests.assign(axis="structured"),
        comparison_columns(context.names),
        4,
        "Difference: of the figures in the tables, first condition minus second; below 0 the first is closer to the "
        "target. Interval: 95% bootstrap, families and prompts resampled, the same for both; of one test without "
        "adjustment. p: signed ranks of prompts, conditions swapped by family; with 6 families it is at least 0.031. "
        "p, these families: swapped by prompt; it says nothing of other families and decides nothing. Adjusted: over "
        f"the splits of the same question (Holm), level {significance:g}. Better or worse: adjusted p at most the "
        "level, and the whole interval beyond the margin; no relevant difference: the whole interval within it; cannot "
        "tell: neither. Perfect samplers: the same difference of perfect samplers of the two sizes, by which the "
        "margin is widened. The tests are of these trained models, not of the methods over training seeds.",
    )


def comparison_columns(models: Mapping[str, str]) -> dict[str, Callable[[Any], str]]:
    """Texts of a test with COMPARISON_COLUMNS, by title."""
    return {
        "Split": lambda row: SHORT_SPLIT_TITLES.get(row.split, row.split),
        "Metric": lambda row: METRICS[row.metric].title,
        "Model": lambda row: models[row.model],
        "Conditions": lambda row: f"{row.condition} − {row.against}",
        "Families": lambda row: str(row.families),
        "Prompts": lambda row: str(row.prompts),
        "Difference": lambda row: number_text(row.difference, sign="+"),
        "95% interval": lambda row: interval_text(row.ci_low, row.ci_high),
        "Verdict": lambda row: f"undefined: {row.undefined} prompts" if row.verdict == "undefined" else row.verdict,
        "Adjusted p": lambda row: probability_text(row.p_adjusted),
        "p": lambda row: probability_text(row.p),
        "p, these families": lambda row: probability_text(row.p_these_families),
        "Margin": lambda row: f"{row.margin:g}",
        "Perfect samplers": lambda row: number_text(row.floor_difference, sign="+"),
    }
