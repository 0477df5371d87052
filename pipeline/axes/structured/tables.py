"""Tables of structured sampling: 6 to 9, calibration, tails, the exact law, equal token budgets, and paired tests."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from pipeline.axes.registry import METRICS, SHORT_SPLIT_TITLES
from pipeline.axes.structured.tails import QUANTILE_ERRORS
from pipeline.config.evaluation import BASELINES
from pipeline.config.retention import TestsConfig
from pipeline.core.statistics.condition_tests import SSOT_PAIRS, TESTED, compare_conditions, method_pairs
from pipeline.report.evaluations import Evaluations, rows_of
from pipeline.report.tables.table import (
    DASH,
    ListTable,
    Measure,
    Table,
    build_table,
    detailed_table,
    existing_measures,
    interval_text,
    measure_of,
    number_range,
    probability_text,
    signed_text,
    with_note,
)

WASSERSTEIN = measure_of("wasserstein_1_normalised")
VALID_RATE = measure_of("valid_rate", bold=False)
"""Not tested, so nothing is bold."""
RATIO_TITLE = "× perfect"
STRUCTURED = (
    WASSERSTEIN,
    replace(WASSERSTEIN, title=f"W1 {RATIO_TITLE}", decimals=1, field="ratio"),
    measure_of("logit_kl_nats"),
    VALID_RATE,
)


def _with_ratio(metric: str) -> tuple[Measure, Measure]:
    """A metric, followed by its ratio to a perfect sampler."""
    return measure_of(metric), measure_of(metric, title=RATIO_TITLE, decimals=1, field="ratio")


CALIBRATION = (
    measure_of("pit_wasserstein_1_all_answers", title="Answers", field="n"),
    measure_of("pit_wasserstein_1", title="Valid", field="n"),
    *_with_ratio("pit_wasserstein_1_all_answers"),
    *_with_ratio("pit_wasserstein_1"),
    *_with_ratio("pit_ks"),
    *_with_ratio("energy_distance_normalised"),
    *_with_ratio("wasserstein_1_normalised"),
    measure_of("pit_rejected_share", bold=False),
    measure_of("pit_chi_square_rejected_share", bold=False),
)
TAILS = (
    measure_of(QUANTILE_ERRORS[0], title="Valid", field="n"),
    *(column for metric in QUANTILE_ERRORS for column in _with_ratio(metric)),
)
STREAMS = tuple(
    measure_of(metric, split, title=f"{METRICS[metric].column_title}, {shown}")
    for split, shown in SHORT_SPLIT_TITLES.items()
    for metric in ("stream_correlation", "stream_correlation_p")
)
EXACT = (
    measure_of("wasserstein_1_window_normalised", title="W1 in the window, sampled"),
    measure_of("exact_wasserstein_1_normalised", title="W1 in the window, computed"),
    measure_of("valid_rate", title="Valid rate, sampled"),
    measure_of("exact_support_rate", title="In the support, computed"),
    measure_of("logit_kl_rounded_law_nats"),
)
"""The model's exact law beside what sampling says of it."""
COMPARED = ("base", "soft", "ssot")
"""Conditions of Tables 8 and 9, of which soft may not be among the methods."""
TESTS_TABLE = "structured_tests"
TEST_TITLES = (
    "Split",
    "Metric",
    "Model",
    "Conditions",
    "Families",
    "Prompts",
    "Difference",
    "95% interval",
    "Verdict",
    "Adjusted p",
    "p",
    "p, these families",
    "Margin",
    "Perfect samplers",
)
BUDGET = (
    measure_of("wasserstein_1_normalised_at_budget"),
    measure_of("wasserstein_1_normalised_at_budget", title="Perfect sampler", field="floor"),
    measure_of("answers_at_budget", bold=False),
    measure_of("tokens_per_answer"),
    measure_of("valid_rate_at_budget"),
)
SPLIT_CAPTIONS = {"ood": "held-out (OOD) families", "unseen": "unseen parameters"}
_INTERVALS = "Brackets: 95% bootstrap intervals over families, prompts and, of distances of samples, the samples."
_ONE_PROMPT = (
    "With one prompt per family, as in the paper's selection, prompts are no level of their own: resampling families "
    "is all there is. "
)
_UNDEFINED = f"{DASH}: undefined, because at least one family has no valid generation."


def _of_split(measures: tuple[Measure, ...], split: str) -> list[Measure]:
    return [replace(measure, split=split) for measure in measures]


def structured_table(
    name: str, caption: str, metrics: pd.DataFrame, split: str, models: Mapping[str, str], conditions: Sequence[str]
) -> Table:
    """Table 6 (split "ood") or 7 ("unseen"): sampled W1, logit KL and valid rate of base and the methods."""
    table = build_table(name, caption, metrics, models, _of_split(STRUCTURED, split), conditions)
    present = table.existing_cells(replace(WASSERSTEIN, split=split))
    floors = sorted({f"{cell.floor:.4f}" for cell in present if math.isfinite(cell.floor)})
    # As many as there are models and conditions.
    listed = ", ".join(floors) if len(floors) <= len(conditions) else f"{floors[0]} to {floors[-1]}"
    return with_note(
        table,
        f"{RATIO_TITLE}: times what a perfect sampler of as many answers scores (in brackets). "
        f"W1 from {number_range([cell.n for cell in present], 0)} valid generations per cell; a perfect sampler "
        f"scores {listed or 'n/a'} at this sample size. Logit KL: mean across families, as the paper's caption "
        f"says; the median is logit_kl_family_median_nats in metrics.csv. {_INTERVALS} "
        f"{_ONE_PROMPT if split == 'unseen' else ''}Bold: "
        f"best of the row. {_UNDEFINED}",
    )


def calibration_table(
    metrics: pd.DataFrame, split: str, models: Mapping[str, str], conditions: Sequence[str]
) -> Table | None:
    """Distances on the PIT scale, energy distance and tests of uniformity; None where none was evaluated."""
    if not existing_measures(metrics, _of_split(CALIBRATION[1:2], split)):
        return None
    return detailed_table(
        f"calibration_{split}",
        f"Calibration with sample sizes and perfect samplers: {SPLIT_CAPTIONS[split]}",
        f"{RATIO_TITLE}: times what a perfect sampler of as many answers scores (in brackets); perfect is 1. "
        "PIT: every answer replaced by the target's probability below it, uniform for a perfect sampler, so "
        "that W1 is finite for every family. Invalid counted: an invalid answer counts with distance 1, more than "
        "any valid one can; W1, KS and energy distance are of valid answers only. Rejected: share of prompts whose "
        "PITs are shown not to be uniform at 5% after Holm; it grows with the number of answers. "
        f"{_INTERVALS} Of shares: Wilson's. Bold: best condition of the model. {_UNDEFINED}",
        metrics,
        models,
        _of_split(CALIBRATION, split),
        (*conditions, *BASELINES),
    )


def tails_table(
    metrics: pd.DataFrame, split: str, models: Mapping[str, str], conditions: Sequence[str]
) -> Table | None:
    """Errors of the outer quantiles; None where none was evaluated."""
    return detailed_table(
        f"tails_{split}",
        f"Errors of the samples' quantiles in the tails: {SPLIT_CAPTIONS[split]}",
        "Distance of the sample's quantile from the target's over Q95 − Q05, at the level that heads the column. "
        f"{RATIO_TITLE}: times what a perfect sampler of as many answers scores (in brackets). Beyond one over the "
        "number of answers of a prompt the quantile is the most extreme answer. "
        f"{_INTERVALS} Bold: best condition of the model. {_UNDEFINED}",
        metrics,
        models,
        _of_split(TAILS, split),
        (*conditions, *BASELINES),
    )


def streams_table(metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]) -> Table | None:
    """Whether prompts share a seed stream; None where it was not tested."""
    return detailed_table(
        "streams",
        "Independence of the random streams of prompts",
        "Mean correlation of two prompts' answers (PITs) at the same sample index: 0 with independent streams, near 1 "
        "where all prompts share one. Brackets: 95% of the correlations under independence, around the value. p: by "
        f"shuffling samples within prompts, not adjusted; one in twenty is below 0.05 by chance. {DASH}: no pairs.",
        metrics,
        models,
        STREAMS,
        (*conditions, *BASELINES),
    )


def exact_table(
    name: str, caption: str, metrics: pd.DataFrame, split: str, models: Mapping[str, str], conditions: Sequence[str]
) -> Table:
    """The model's exact law beside the sampled figures of one split."""
    table = build_table(name, caption, metrics, models, _of_split(EXACT, split), conditions, conditions_are_rows=True)
    return with_note(
        table,
        "Computed: from the model's probabilities of digit prefixes, without sampling and with tokens that no "
        "plain decimal has left out. The middle of certified bounds; those of W1 are the metrics with _low and "
        "_high in metrics.csv. W1 here has samples and law clipped to the window between the target's 0.001 and "
        f"0.999 quantiles, as the paper's grid does. {_INTERVALS}",
    )


def comparison_table(
    name: str, caption: str, metrics: pd.DataFrame, split: str, models: Mapping[str, str], conditions: Sequence[str]
) -> Table:
    """Table 8 (split "ood") or 9 ("unseen"): base and soft against String Seed of Thought.

    The note gives sample size and floor by condition, because they differ.
    """
    wasserstein, valid = _of_split((WASSERSTEIN, VALID_RATE), split)
    compared = tuple(condition for condition in COMPARED if condition in (*conditions, "ssot"))
    table = build_table(name, caption, metrics, models, [wasserstein, valid], compared)
    sizes = []
    for condition in compared:
        cells, totals = table.column(wasserstein, condition), table.column(valid, condition)
        if cells:
            sizes.append(
                f"{condition}: {number_range([cell.n for cell in cells], 0)} valid of "
                f"{number_range([cell.n for cell in totals], 0)} generations per cell, a perfect sampler scores "
                f"{number_range([cell.floor for cell in cells], 4)}"
            )
    return with_note(
        table,
        "Conditions with different numbers of generations have different floors: read each W1 against its own. "
        f"{'; '.join(sizes)}. {_INTERVALS} Bold: best of the row. {_UNDEFINED}",
    )


def budget_table(
    metrics: pd.DataFrame, split: str, models: Mapping[str, str], conditions: Sequence[str], token_budget: int
) -> Table | None:
    """All conditions at an equal number of generated tokens per prompt; None where none was scored so."""
    return detailed_table(
        f"equal_token_budget_{split}",
        f"Conditions at an equal token budget: {SPLIT_CAPTIONS[split]}",
        f"Of each condition, the answers within the first {token_budget} generated tokens per prompt, reasoning "
        "included; of a condition that generated fewer, all answers. A cheaper condition gives more answers, and a "
        f"perfect sampler of as many answers scores lower; its W1 stands beside each. {_INTERVALS} Bold: best "
        f"condition of the model. {_UNDEFINED}",
        metrics,
        models,
        _of_split(BUDGET, split),
        (*conditions, *BASELINES),
    )


def per_prompt_metrics(evaluations: Evaluations, models: Mapping[str, str], conditions: Sequence[str]) -> pd.DataFrame:
    """Columns model, condition, prompt_id, split, family and TESTED (NaN where a condition lacks one).

    Args:
        evaluations: What there is.
        models: Model name -> display name.
        conditions: Conditions in order, within each model.

    Raises:
        ArtifactError: A table is truncated or names no prompts.
    """
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
) -> ListTable | None:
    """Paired tests of ``method_pairs`` and SSOT_PAIRS; None without pairs.

    Args:
        evaluations: What there is.
        models: Model name -> display name.
        conditions: Base and the methods, in order.
        seed: Root seed of the tests.
        settings: Level and margins.
        replicates: Resamples of each interval.
    """
    per_prompt = per_prompt_metrics(evaluations, models, (*conditions, "ssot"))
    pairs, floors = (*method_pairs(conditions), *SSOT_PAIRS), perfect_sampler_scores(evaluations.metrics)
    tests = compare_conditions(per_prompt, pairs, floors, margins_of(settings), seed, settings.significance, replicates)
    if tests.empty:
        return None
    return ListTable(
        TESTS_TABLE,
        "Paired tests between conditions, structured sampling",
        TEST_TITLES,
        [test_row(row, models) for row in tests.itertuples()],
        4,
        tests.assign(axis="structured"),
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


def test_row(row: Any, models: Mapping[str, str]) -> list[str]:
    """Texts of a test under TEST_TITLES; ``row`` has COMPARISON_COLUMNS."""
    return [
        SHORT_SPLIT_TITLES.get(row.split, row.split),
        METRICS[row.metric].title,
        models[row.model],
        f"{row.condition} − {row.against}",
        str(row.families),
        str(row.prompts),
        signed_text(row.difference),
        interval_text(row.ci_low, row.ci_high),
        f"undefined: {row.undefined} prompts" if row.verdict == "undefined" else row.verdict,
        probability_text(row.p_adjusted),
        probability_text(row.p),
        probability_text(row.p_these_families),
        f"{row.margin:g}",
        signed_text(row.floor_difference),
    ]


def structured_tables(
    metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str], ssot: bool, token_budget: int
) -> list[Table]:
    """All tables of the axis in page order; none of them without a single cell.

    Tables 8 and 9 are there where SSOT is a condition or was evaluated.
    """
    titles = {
        "table6": ("ood", "Table 6. Structured sampling on held-out (OOD) families"),
        "table7": ("unseen", "Table 7. Structured sampling with unseen parameters"),
    }
    tables = [
        structured_table(name, caption, metrics, split, models, conditions) for name, (split, caption) in titles.items()
    ]
    tables += [calibration_table(metrics, split, models, conditions) for split in SPLIT_CAPTIONS]
    tables += [tails_table(metrics, split, models, conditions) for split in SPLIT_CAPTIONS]
    for split, title in SPLIT_CAPTIONS.items():
        caption = f"The exact law beside the sampled figures: {title}"
        tables.append(exact_table(f"exact_{split}", caption, metrics, split, models, conditions))
    if ssot or len(rows_of(metrics, axis="structured", condition="ssot")):
        for name, split in (("table8", "ood"), ("table9", "unseen")):
            beside = "base and soft" if "soft" in conditions else "base"
            caption = f"Table {name[-1]}. String Seed of Thought (SSOT) beside {beside}: {SPLIT_CAPTIONS[split]}"
            tables.append(comparison_table(name, caption, metrics, split, models, conditions))
    tables += [budget_table(metrics, split, models, conditions, token_budget) for split in SPLIT_CAPTIONS]
    tables.append(streams_table(metrics, models, conditions))
    return [table for table in tables if table is not None and not table.is_empty]
