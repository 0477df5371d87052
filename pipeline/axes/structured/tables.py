"""Tables of structured sampling: 6 to 9, calibration, the exact law, equal token budgets, and paired tests."""

from collections.abc import Callable, Collection, Mapping, Sequence
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
    return TableSpec(
        f"table{number}",
        f"Table {number}. {caption}{SPLIT_CAPTIONS[split]}",
        (
            *_with_ratio("wasserstein_1_normalised", split),
            *(Column(metric, split=split) for metric in (*further, "valid_rate")),
            Column("valid_rate", "n", "Answers", split),
        ),
        f"{_RATIO} W1 of the valid answers; logit KL: mean across families, as the paper's caption says. Intervals: "
        "bootstrap over families, prompts and, of distances of samples, the samples. With one prompt per family, as in "
        f"the paper's selection of unseen parameters, resampling families is all there is. {_UNDEFINED}",
    )


PAPER_TABLES = (
    sampled_table(6, "Structured sampling on ", "ood", "logit_kl_nats"),
    sampled_table(7, "Structured sampling with ", "unseen", "logit_kl_nats"),
)
SSOT_TABLES = (
    sampled_table(8, "String Seed of Thought (SSOT) beside base and soft: ", "ood"),
    sampled_table(9, "String Seed of Thought (SSOT) beside base and soft: ", "unseen"),
)
CALIBRATION_TABLE = TableSpec(
    "calibration",
    "Calibration with sample sizes and perfect samplers",
    (
        Column("pit_wasserstein_1_all_answers", "n", "Answers"),
        Column("pit_wasserstein_1", "n", "Valid"),
        *_with_ratio("pit_wasserstein_1_all_answers"),
        *_with_ratio("pit_wasserstein_1"),
        *_with_ratio("pit_ks"),
        *_with_ratio("energy_distance_normalised"),
        *_with_ratio("wasserstein_1_normalised"),
        Column("pit_rejected_share"),
        Column("pit_chi_square_rejected_share"),
    ),
    f"{_RATIO} PIT: every answer replaced by the target's probability below it, uniform for a perfect sampler, so that "
    "W1 is finite for every family. Invalid counted: an invalid answer counts with distance 1, more than any valid one "
    "can; W1, KS and energy distance are of valid answers only. Rejected: share of prompts whose PITs are shown not to "
    f"be uniform at 5% after Holm; it grows with the number of answers. {_UNDEFINED}",
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
    "decimal has left out. The middle of certified bounds; their ends are the metrics with _low and _high in "
    "metrics.csv. W1 here has samples and law clipped to the window between the target's 0.001 and 0.999 quantiles, "
    "as the paper's grid does.",
    "Split",
)
BUDGET_TABLE = TableSpec(
    "equal_token_budget",
    "Conditions at an equal token budget",
    (
        *_with_ratio("wasserstein_1_normalised_at_budget"),
        Column("answers_at_budget"),
        Column("tokens_per_answer"),
        Column("valid_rate_at_budget"),
    ),
    "Of each condition, the answers within the same number of first generated tokens per prompt "
    "(evaluate.token_budget), reasoning included; of a condition that generated fewer, all answers. A cheaper "
    f"condition gives more answers, and a perfect sampler of as many answers scores lower. {_RATIO} {_UNDEFINED}",
    "Split",
)


def structured_tables(context: ReportContext) -> list[Table | None]:
    """All tables of the axis in page order but the tests; 8 and 9 where SSOT was evaluated."""
    reported = set(context.metrics["metric"])
    tables = [specified(spec, context, context.conditions) for spec in PAPER_TABLES]
    if "pit_wasserstein_1" in reported:
        tables.append(specified(CALIBRATION_TABLE, context))
    if "exact_support_rate" in reported:
        tables.append(specified(EXACT_TABLE, context, context.conditions))
    if len(rows_of(context.metrics, axis="structured", condition="ssot")):
        compared = [condition for condition in COMPARED if condition in (*context.conditions, "ssot")]
        tables += [specified(spec, context, compared) for spec in SSOT_TABLES]
    if "answers_at_budget" in reported:
        tables.append(specified(BUDGET_TABLE, context))
    return tables


def per_prompt_metrics(evaluations: Evaluations, models: Mapping[str, str], conditions: Sequence[str]) -> pd.DataFrame:
    """Columns model, condition, prompt_id, split, family and TESTED (NaN where a condition lacks one)."""
    names = ("prompt_id", "split", "family")
    return evaluations.stacked("structured", "per_prompt", names, models, conditions, optional=TESTED)


def perfect_sampler_scores(
    metrics: pd.DataFrame, axis: str = "structured", tested: Collection[str] = tuple(TESTED)
) -> dict[tuple[str, str, str, str], float]:
    """Floor of each of an axis's ``tested`` aggregates by (model, condition, split, metric)."""
    aggregates = rows_of(metrics, axis=axis, family="")
    chosen = aggregates[aggregates["metric"].isin(tested)]
    columns = ["model", "condition", "split", "metric"]
    return dict(zip(chosen[columns].itertuples(index=False, name=None), chosen["floor"], strict=True))


def margins_of(settings: TestsConfig) -> dict[str, float]:
    """Smallest difference that matters by metric of TESTED."""
    return {
        metric: settings.logit_kl_margin if metric == "logit_kl_nats" else settings.wasserstein_margin
        for metric in TESTED
    }


def structured_tests_table(
    evaluations: Evaluations,
    models: Mapping[str, str],
    conditions: Sequence[str],
    seed: int,
    settings: TestsConfig,
    replicates: int,
) -> Table | None:
    """Paired tests of ``method_pairs`` and SSOT_PAIRS; None without pairs."""
    per_prompt = per_prompt_metrics(evaluations, models, (*conditions, "ssot"))
    pairs, floors = (*method_pairs(conditions), *SSOT_PAIRS), perfect_sampler_scores(evaluations.metrics)
    tests = compare_conditions(per_prompt, pairs, floors, margins_of(settings), seed, settings.significance, replicates)
    return records_table(
        TESTS_TABLE,
        "Paired tests between conditions, structured sampling",
        tests.assign(axis="structured"),
        test_columns(models),
        4,
        "Difference: of the figures in the tables (mean within family; across families the median, of logit KL the "
        "mean), first condition minus second; below 0 the first is closer to the target. Interval: 95% bootstrap of "
        "that difference, families and "
        "prompts resampled, the same for both; of one test without adjustment. p: two-sided test of the prompts' "
        "signed ranks, conditions swapped by family, so that it is of families like these; with 6 it is at least "
        "0.031. p, these families: swapped by prompt; it says nothing of other families and decides nothing. "
        f"Adjusted: over the splits of the same question (Holm), level {settings.significance:g}. Better or worse: "
        "adjusted p at most the level, and the whole interval beyond the margin; no relevant difference: the whole "
        "interval within it; cannot tell: neither. Perfect samplers: the same difference of perfect samplers of the "
        "two sizes, by which the margin is widened. One trained model per condition: the tests are of these models, "
        "not of the methods over training seeds.",
    )


def test_columns(models: Mapping[str, str]) -> dict[str, Callable[[Any], str]]:
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
