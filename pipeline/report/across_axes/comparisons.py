"""Paired tests of what carries over to language: open-ended answers, NoveltyBench and multiple choice.

Differences are own - other. Open-ended requests and NoveltyBench's prompts are answered under every condition, so
their values are paired by prompt. There is one multiple-choice request: two conditions are two samples of generations.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from pipeline.axes.mcq.multiple_choice import (
    total_variation,
    total_variation_draws,
    total_variation_floor,
    total_variations,
)
from pipeline.axes.registry import METRICS
from pipeline.config.params import Params
from pipeline.core.prompts.multiple_choice import LETTERS
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.condition_tests import (
    ALL_PARTS,
    adjusted_by_question,
    comparison_verdict,
    method_pairs,
)
from pipeline.core.statistics.intervals import newcombe_interval, paired_mean_draws, percentile_interval
from pipeline.core.statistics.paired_tests import PERMUTATIONS, sign_flip_test
from pipeline.report.evaluations import Evaluations, ReportContext, rows_of
from pipeline.report.table import Table, interval_text, number_text, probability_text, records_table

TESTS_TABLE = "transfer_tests"
OPEN_METRICS = ("top_p_support_size", "unique_fraction")
COUNTS = ("num_samples", "num_parsed", *(f"count_{letter.lower()}" for letter in LETTERS))
Question = tuple[str, str, str]
"""Axis, split and metric."""


def with_verdicts(tests: pd.DataFrame, significance: float) -> pd.DataFrame:
    """Tests with p adjusted over the splits of a question (Holm), and verdicts at a level."""
    if tests.empty:
        return tests
    tests = tests.assign(p_adjusted=adjusted_by_question(tests))
    verdicts = []
    for row in tests.itertuples():
        interval, higher = (row.ci_low, row.ci_high), METRICS[row.metric].direction == "higher"
        verdicts.append(comparison_verdict(interval, row.p_adjusted, significance, 0.0, row.floor_difference, higher))
    return tests.assign(verdict=verdicts)


def pair(row: Any) -> str:
    """The two conditions, as a difference."""
    return f"{row.condition} − {row.against}"


def _result(
    n: int,
    values: tuple[float, float] = (math.nan, math.nan),
    interval: tuple[float, float] = (math.nan, math.nan),
    p: float = math.nan,
    floors: float = math.nan,
) -> dict[str, float]:
    """Two figures, their difference with its interval, two-sided p, and the difference of uniform samplers."""
    own, other = values
    ends = dict(zip(("ci_low", "ci_high"), interval, strict=True))
    difference = {"value": own, "value_against": other, "difference": own - other}
    return {"n": n, **difference, **ends, "floor_difference": floors, "p": p}


def compare_prompts(own: np.ndarray, other: np.ndarray, names: tuple, replicates: int) -> dict[str, float]:
    """Compare means over the same prompts, float64[P] with NaN where undefined.

    The interval is a bootstrap over prompts, the test flips signs of the prompts' differences; ``names`` are the seed
    and what completes the names of the streams.
    """
    seed, *names = names
    pairs = own - other
    defined = np.isfinite(pairs)
    if not defined.any():
        return _result(0)
    rng = random_stream(seed, "transfer tests", "bootstrap", *names)
    draws = paired_mean_draws(own, other, replicates=replicates, rng=rng)
    interval = percentile_interval(draws) if len(own) > 1 else (math.nan, math.nan)
    p = sign_flip_test(pairs[defined], PERMUTATIONS, random_stream(seed, "transfer tests", "signs", *names))
    return _result(int(defined.sum()), (float(np.nanmean(own)), float(np.nanmean(other))), interval, p)


def compare_rates(successes: tuple[int, int], trials: tuple[int, int]) -> dict[str, float]:
    """Compare rates of two independent samples: Newcombe's interval and Fisher's exact test."""
    if 0 in trials:
        return _result(0)
    table = [[successes[side], trials[side] - successes[side]] for side in (0, 1)]
    values = (successes[0] / trials[0], successes[1] / trials[1])
    return _result(min(trials), values, newcombe_interval(successes, trials), float(stats.fisher_exact(table).pvalue))


def compare_total_variation(own: np.ndarray, other: np.ndarray, names: tuple, replicates: int) -> dict[str, float]:
    """Compare the total variation distances from uniform of two independent samples of letters, int64[K].

    The permutation test deals the letters of both to two samples of the same sizes. A smaller sample lies farther
    from uniform by chance, so what counts is the distance of the difference from its mean over the deals. The
    hypothesis is that both conditions place the answer by the same law; the statistic sees differences in balance
    only, so the test is of that.
    """
    sizes, values = (int(own.sum()), int(other.sum())), (total_variation(own), total_variation(other))
    if min(sizes) < 2:
        return _result(min(sizes), values)
    seed, *rest = names
    rng = random_stream(seed, "transfer tests", "deals", *rest)
    dealt = rng.multivariate_hypergeometric(own + other, sizes[0], size=PERMUTATIONS)
    deals = total_variations(dealt) - total_variations(own + other - dealt)
    observed = abs(values[0] - values[1] - deals.mean()) - 1e-12
    p = (1 + int((np.abs(deals - deals.mean()) >= observed).sum())) / (PERMUTATIONS + 1)
    rng = random_stream(seed, "transfer tests", "bootstrap", *rest)
    draws = total_variation_draws(own, replicates, rng) - total_variation_draws(other, replicates, rng)
    interval = percentile_interval(draws)
    return _result(min(sizes), values, interval, p, total_variation_floor(sizes[0]) - total_variation_floor(sizes[1]))


def values_by_prompt(
    evaluations: Evaluations, models: Sequence[str], conditions: Sequence[str]
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
    reported = rows_of(evaluations.metrics, axis="novelty")
    names = set(zip(reported["model"], reported["condition"], reported["metric"], strict=True))
    keys = list(zip(rated["model"], rated["condition"], strict=True))
    for column, suffixes in (("distinct", ("", "_lexical")), ("utility", ("", "_stand_in"))):
        for suffix in suffixes:
            metric = column + suffix
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
    """COUNTS, as the strict parser reads, by (model, condition); sums over requests."""
    table = evaluations.stacked("mcq", "per_prompt", COUNTS, models, conditions)
    return {key: own[list(COUNTS)].sum() for key, own in table.groupby(["model", "condition"], sort=False)}


def transfer_comparisons(params: Params, evaluations: Evaluations) -> pd.DataFrame:
    """The ``method_pairs`` of all models on the transfer axes, whose tests have a level and no margin.

    Returns:
        Columns axis, split, metric, model, condition, against, n, value, value_against, difference, ci_low, ci_high,
        floor_difference, p, p_adjusted, verdict and provenance; empty where there is no pair.
    """
    models, conditions = list(params.models), params.conditions
    seed, replicates, rows = params.seed, params.evaluate.bootstrap_replicates, []

    def add(question: Question, model: str, own: str, other: str, result: dict[str, float]) -> None:
        labels = (*question, model, own, other)
        names = ("axis", "split", "metric", "model", "condition", "against")
        rows.append(dict(zip(names, labels, strict=True)) | result)

    for question, table in values_by_prompt(evaluations, models, conditions).items():
        for model, own, other in _existing(params, set(table.columns)):
            sides = (table[model, condition].to_numpy() for condition in (own, other))
            names = (seed, *question, model, own, other)
            add(question, model, own, other, compare_prompts(*sides, names, replicates))
    counts = letter_counts(evaluations, models, conditions)
    rate, balance = (("mcq", "mcq", f"mcq_{name}") for name in ("parse_rate", "total_variation"))
    for model, own, other in _existing(params, set(counts)):
        first, second = counts[model, own], counts[model, other]
        parsed, asked = ((int(first[name]), int(second[name])) for name in ("num_parsed", "num_samples"))
        add(rate, model, own, other, compare_rates(parsed, asked))
        letters = [side[list(COUNTS[2:])].to_numpy(dtype=np.int64) for side in (first, second)]
        names = (seed, *balance, model, own, other)
        add(balance, model, own, other, compare_total_variation(*letters, names, replicates))
    compared = with_verdicts(pd.DataFrame(rows), params.tests.significance)
    if compared.empty:
        return compared
    by_axis = [evaluations.with_provenance(axis, members) for axis, members in compared.groupby("axis", sort=False)]
    return pd.concat(by_axis, ignore_index=True)


def _existing(params: Params, existing: set[tuple[str, str]]) -> list[tuple[str, str, str]]:
    """Model and pair of conditions, of which both were evaluated."""
    pairs = method_pairs(params.conditions)
    return [(m, own, other) for m in params.models for own, other in pairs if {(m, own), (m, other)} <= existing]


def transfer_tests_table(context: ReportContext, tests: pd.DataFrame) -> Table | None:
    """``transfer_comparisons`` as a table; None without any."""
    columns = {
        "Metric": lambda row: METRICS[row.metric].title,
        "Split": lambda row: row.split,
        "Model": lambda row: context.names[row.model],
        "Conditions": pair,
        "n": lambda row: f"{row.n:,}",
        "Difference": lambda row: number_text(row.difference, METRICS[row.metric].decimals, "+"),
        "95% interval": lambda row: interval_text(row.ci_low, row.ci_high, METRICS[row.metric].decimals),
        "Uniform samplers": lambda row: number_text(row.floor_difference, METRICS[row.metric].decimals, "+"),
        "p": lambda row: probability_text(row.p),
        "Adjusted p": lambda row: probability_text(row.p_adjusted),
        "Verdict": lambda row: row.verdict,
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
        "over the splits of the same question (Holm), level "
        f"{context.params.tests.significance:g}; both splits together (all) are a question by itself, the primary "
        "one. Better or worse: adjusted p at most the level, and the interval on one side. No margin of relevance was "
        "set here.",
    )
