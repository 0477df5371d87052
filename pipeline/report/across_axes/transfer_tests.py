"""Paired tests of what carries over to language: open-ended answers, NoveltyBench and multiple choice.

Differences are own - other. Open-ended requests and NoveltyBench's prompts are answered under every condition, so
their values are paired by prompt. There is one multiple-choice request: what varies are its independent generations,
and two conditions are two samples.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from pipeline.axes.mcq.multiple_choice import (
    PARSERS,
    total_variation,
    total_variation_draws,
    total_variation_floor,
    total_variations,
)
from pipeline.axes.novelty.report import DISTINCT, UTILITY
from pipeline.axes.registry import METRICS
from pipeline.config.retention import TestsConfig
from pipeline.core.prompts.multiple_choice import LETTERS
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.condition_tests import ALL_PARTS, method_pairs
from pipeline.core.statistics.intervals import newcombe_interval, paired_mean_draws, percentile_interval
from pipeline.core.statistics.paired_tests import PERMUTATIONS, sign_flip_test
from pipeline.report.across_axes.records import (
    VERDICT_COLUMNS,
    difference,
    interval,
    metric_title,
    pair,
    records_table,
    with_verdicts,
)
from pipeline.report.evaluations import Evaluations, rows_of
from pipeline.report.tables.table import ListTable, signed_text

TESTS_TABLE = "transfer_tests"
OPEN_METRICS = ("top_p_support_size", "unique_fraction")
Question = tuple[str, str, str]
"""Axis, split and metric."""


@dataclass(frozen=True)
class TransferTest:
    """A difference of two tabulated figures and the test of it; numbers are NaN where one is undefined.

    Attributes:
        n: Prompts defined under both conditions; of the multiple-choice request the fewer generations.
        value, value_against: The two conditions' figures.
        difference: value - value_against, with its 95% interval.
        floor_difference: The same of uniform samplers of as many answers; NaN where there is no such thing.
        p: Two-sided, not adjusted.
    """

    n: int
    value: float
    value_against: float
    difference: float
    ci_low: float
    ci_high: float
    floor_difference: float
    p: float


def compare_prompts(
    own: np.ndarray, other: np.ndarray, seed: int, names: tuple[str, ...], replicates: int
) -> TransferTest:
    """Compare means over the same prompts, float64[P] with NaN where undefined.

    The interval is a bootstrap over prompts, the test flips signs of the prompts' differences; ``names`` complete the
    names of their streams.
    """
    own, other = (np.asarray(side, dtype=np.float64) for side in (own, other))
    pairs = own - other
    defined = np.isfinite(pairs)
    if not defined.any():
        return TransferTest(0, *[np.nan] * 7)
    rng = random_stream(seed, "transfer tests", "bootstrap", *names)
    draws = paired_mean_draws(own, other, replicates=replicates, rng=rng)
    interval = percentile_interval(draws) if len(own) > 1 else (np.nan, np.nan)
    value, against = float(np.nanmean(own)), float(np.nanmean(other))
    p = sign_flip_test(pairs[defined], PERMUTATIONS, random_stream(seed, "transfer tests", "signs", *names))
    return TransferTest(int(defined.sum()), value, against, value - against, *interval, np.nan, p)


def compare_rates(successes: tuple[int, int], trials: tuple[int, int]) -> TransferTest:
    """Compare rates of two independent samples: Newcombe's interval and Fisher's exact test."""
    (own, other), (size, other_size) = successes, trials
    if 0 in trials:
        return TransferTest(0, *[np.nan] * 7)
    value, against = own / size, other / other_size
    p = float(stats.fisher_exact([[own, size - own], [other, other_size - other]]).pvalue)
    interval = newcombe_interval(successes, trials)
    return TransferTest(min(trials), value, against, value - against, *interval, np.nan, p)


def compare_total_variation(
    own: np.ndarray, other: np.ndarray, seed: int, names: tuple[str, ...], replicates: int
) -> TransferTest:
    """Compare the total variation distances from uniform of two independent samples of letters, int64[K].

    The permutation test deals the letters of both to two samples of the same sizes. A smaller sample lies farther
    from uniform by chance, so what counts is the distance of the difference from its mean over the deals. The
    hypothesis is that both conditions place the answer by the same law; the statistic sees differences in balance
    only, so the test is of that.
    """
    sizes = int(own.sum()), int(other.sum())
    if min(sizes) < 2:
        return TransferTest(min(sizes), total_variation(own), total_variation(other), *[np.nan] * 5)
    rng = random_stream(seed, "transfer tests", "deals", *names)
    dealt = rng.multivariate_hypergeometric(own + other, sizes[0], size=PERMUTATIONS)
    deals = total_variations(dealt) - total_variations(own + other - dealt)
    value, against = total_variation(own), total_variation(other)
    observed = abs(value - against - deals.mean()) - 1e-12
    p = (1 + int((np.abs(deals - deals.mean()) >= observed).sum())) / (PERMUTATIONS + 1)
    interval = percentile_interval(total_variation_difference_draws(own, other, seed, names, replicates))
    floors = total_variation_floor(sizes[0]) - total_variation_floor(sizes[1])
    return TransferTest(min(sizes), value, against, value - against, *interval, floors, p)


def total_variation_difference_draws(
    own: np.ndarray, other: np.ndarray, seed: int, names: tuple[str, ...], replicates: int
) -> np.ndarray:
    """float64[replicates] of the difference on resamples of both samples, each freed of the bootstrap's own bias."""
    rng = random_stream(seed, "transfer tests", "bootstrap", *names)
    return total_variation_draws(own, replicates, rng) - total_variation_draws(other, replicates, rng)


def values_by_prompt(
    evaluations: Evaluations, metrics: pd.DataFrame, models: Sequence[str], conditions: Sequence[str]
) -> dict[Question, pd.DataFrame]:
    """Values of the metrics that are means over prompts: a row per prompt, a column per (model, condition).

    NoveltyBench's values go by the name that the evaluation reported them under, so those of stand-ins are apart.
    """
    found = {}
    answers = evaluations.stacked("open", "per_prompt", ("prompt_id",), models, conditions, optional=OPEN_METRICS)
    for metric in OPEN_METRICS:
        found["open", "open", metric] = _by_prompt(answers, metric)
    columns = ("prompt_id", "split", "distinct", "utility")
    rated = evaluations.stacked("novelty", "per_prompt", columns, models, conditions)
    reported = rows_of(metrics, axis="novelty")
    names = set(zip(reported["model"], reported["condition"], reported["metric"], strict=True))
    keys = list(zip(rated["model"], rated["condition"], strict=True))
    for column, by_evaluator in (("distinct", DISTINCT), ("utility", UTILITY)):
        for metric in by_evaluator.values():
            own = rated[np.array([(*key, metric) in names for key in keys], dtype=bool)]
            for split in [*dict.fromkeys(rated["split"]), ALL_PARTS]:
                members = own if split == ALL_PARTS else own[own["split"] == split]
                found["novelty", split, metric] = _by_prompt(members, column)
    return {question: table for question, table in found.items() if table.size and table.notna().any().any()}


def _by_prompt(table: pd.DataFrame, column: str) -> pd.DataFrame:
    return table.pivot(index="prompt_id", columns=["model", "condition"], values=column).astype(float)


def letter_counts(
    evaluations: Evaluations, models: Sequence[str], conditions: Sequence[str]
) -> dict[tuple[str, str], pd.Series]:
    """Generations, those that parse, and answers by letter, by (model, condition); sums over requests."""
    columns = [
        "num_samples",
        *(f"num_parsed{suffix}" for suffix in PARSERS),
        *(f"count{suffix}_{letter.lower()}" for suffix in PARSERS for letter in LETTERS),
    ]
    table = evaluations.stacked("mcq", "per_prompt", columns, models, conditions)
    return {key: members[columns].sum() for key, members in table.groupby(["model", "condition"], sort=False)}


def letters_of(counts: pd.Series, suffix: str) -> np.ndarray:
    """int64[4], answers by letter under the parser of a suffix."""
    return counts[[f"count{suffix}_{letter.lower()}" for letter in LETTERS]].to_numpy(dtype=np.int64)


def transfer_comparisons(
    evaluations: Evaluations,
    metrics: pd.DataFrame,
    models: Mapping[str, str],
    conditions: Sequence[str],
    seed: int,
    settings: TestsConfig,
    replicates: int,
) -> pd.DataFrame:
    """The ``method_pairs`` of all models on the transfer axes, whose tests have a level and no margin.

    Returns:
        Columns axis, split, metric, model, condition, against, those of ``TransferTest``, p_adjusted, verdict and
        provenance; empty where there is no pair.
    """
    tests: list[tuple[Question, str, str, str, TransferTest]] = []
    for question, table in values_by_prompt(evaluations, metrics, list(models), conditions).items():
        for model, own, other in _existing(models, conditions, set(table.columns)):
            sides = (table[model, condition].to_numpy() for condition in (own, other))
            names = (*question, model, own, other)
            tests.append((question, model, own, other, compare_prompts(*sides, seed, names, replicates)))
    counts = letter_counts(evaluations, list(models), conditions)
    for suffix in PARSERS:
        rate, balance = (("mcq", "mcq", f"mcq_{name}{suffix}") for name in ("parse_rate", "total_variation"))
        for model, own, other in _existing(models, conditions, set(counts)):
            first, second = counts[model, own], counts[model, other]
            parsed, asked = ((int(first[c]), int(second[c])) for c in (f"num_parsed{suffix}", "num_samples"))
            tests.append((rate, model, own, other, compare_rates(parsed, asked)))
            letters = letters_of(first, suffix), letters_of(second, suffix)
            names = (*balance, model, own, other)
            found = compare_total_variation(*letters, seed, names, replicates)
            tests.append((balance, model, own, other, found))
    rows = [
        {
            **dict(zip(("axis", "split", "metric"), question, strict=True)),
            "model": model,
            "condition": own,
            "against": other,
            **vars(test),
        }
        for question, model, own, other, test in tests
    ]
    compared = with_verdicts(pd.DataFrame(rows), settings.significance)
    if compared.empty:
        return compared
    by_axis = [evaluations.with_provenance(axis, members) for axis, members in compared.groupby("axis", sort=False)]
    return pd.concat(by_axis, ignore_index=True)


def _existing(
    models: Mapping[str, str], conditions: Sequence[str], existing: set[tuple[str, str]]
) -> list[tuple[str, str, str]]:
    """Model and pair of conditions, of which both were evaluated."""
    return [
        (model, own, other)
        for model in models
        for own, other in method_pairs(conditions)
        if {(model, own), (model, other)} <= existing
    ]


def transfer_tests_table(tests: pd.DataFrame, models: Mapping[str, str], significance: float) -> ListTable | None:
    """``transfer_comparisons`` as a table; None without any."""

    def floors(row) -> str:
        if not math.isfinite(row.floor_difference):
            return ""
        return signed_text(row.floor_difference, METRICS[row.metric].decimals)

    columns = {
        "Metric": metric_title,
        "Split": lambda row: row.split,
        "Model": lambda row: models[row.model],
        "Conditions": pair,
        "n": lambda row: f"{row.n:,}",
        "Difference": difference,
        "95% interval": interval,
        "Uniform samplers": floors,
        **VERDICT_COLUMNS,
    }
    return records_table(
        TESTS_TABLE,
        "Paired tests between conditions, beyond numbers",
        tests,
        columns,
        4,
        "Difference: of the figures in the tables, first condition minus second. Open-ended answers and NoveltyBench: "
        "means over prompts, with a bootstrap interval over prompts and a sign-flip test of the prompts' differences. "
        "Multiple choice has one request, so conditions are two samples of generations: parse rates with Newcombe's "
        "interval and Fisher's exact test; total variation, of the questions that parse, with a bootstrap interval and "
        "a permutation test that deals the letters of both to samples of the same sizes. Uniform samplers: the "
        "difference of what uniform samplers of the two sizes score; one that is no larger says nothing. Adjusted: "
        f"over the splits of the same question (Holm), level {significance:g}; both splits together (all) are a "
        "question by itself, the primary one. Better or worse: adjusted p at most the level, and the interval on one "
        "side. No margin of relevance was set here.",
    )
