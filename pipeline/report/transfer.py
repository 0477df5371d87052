"""Table 1, and paired tests of what carries over to language: open-ended answers, NoveltyBench and multiple choice.

Open-ended requests and NoveltyBench's prompts are answered under every condition, so their values are paired by
prompt. There is one multiple-choice request: two conditions are two samples of generations.
"""

import math
from itertools import product

import numpy as np
import pandas as pd

from pipeline.axes.mcq.multiple_choice import UNIFORM, total_variation, total_variation_floor, total_variations
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
from pipeline.core.statistics.sign_flips import PATTERNS, sign_flip_effect
from pipeline.report.evaluations import Evaluations, ReportContext, rows_of
from pipeline.report.table import Column, Table, TableSpec, interval_text, number_text, probability_text, records_table

GENERATIVE_SUMMARY = TableSpec(
    "table1",
    "Table 1. Diversity and balance of what models generate beyond numbers",
    (
        *(Column(name) for name in ("top_p_support_size", "unique_fraction", "mcq_total_variation")),
        Column("mcq_total_variation", "floor", "Uniform sampler"),
        Column("utility", title="NoveltyBench utility"),
        Column("utility_stand_in", title="NoveltyBench utility (stand-in)"),
    ),
    "Support size: first-step tokens, most probable first, that hold 90% of the probability, mean over prompts. Unique "
    "output rate: distinct answers over all answers. TV: distance of the correct answer's position from uniform over "
    "parseable questions. NoveltyBench utility: mean over the prompts of both splits; a stand-in's is not comparable "
    "with the paper's.",
)
OPEN_METRICS = ("top_p_support_size", "unique_fraction")
NOVELTY_METRICS = ("distinct", "distinct_lexical", "utility", "utility_stand_in")
LETTER_COUNTS = [f"count_{letter.lower()}" for letter in LETTERS]
UNDEFINED = (math.nan, math.nan)
STREAM = "transfer tests"


def _result(
    n: int,
    values: tuple[float, float] = UNDEFINED,
    interval: tuple[float, float] = UNDEFINED,
    p: float = math.nan,
    floors: float = math.nan,
) -> dict[str, float]:
    """Two figures, their difference with its interval, two-sided p, and the difference of uniform samplers."""
    own, other = values
    result = {"n": n, "value": own, "value_against": other, "difference": own - other}
    return result | {"ci_low": interval[0], "ci_high": interval[1], "floor_difference": floors, "p": p}


def compare_prompts(own: np.ndarray, other: np.ndarray, names: tuple) -> dict[str, float]:
    """Compare means over the same prompts, float64[P], those left out that are NaN under one: a sign-flip test."""
    seed, *names = names
    both = np.isfinite(own - other)
    if not both.any():
        return _result(0)
    effect = sign_flip_effect(own - other, random_stream(seed, STREAM, "signs", *names))
    values = float(own[both].mean()), float(other[both].mean())
    return _result(effect.n, values, (effect.ci_low, effect.ci_high), effect.p)


def _standard_errors(own: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Of differences of total variation from uniform, float64[R] of int[R, K] each: the distance is the mass on the
    letters above their share, less a constant."""
    variance = np.zeros(len(own))
    for counts in (own, other):
        size = counts.sum(axis=1)
        above = np.where(counts > size[:, None] * UNIFORM, counts, 0).sum(axis=1) / size
        variance += above * (1 - above) / size
    return np.sqrt(variance)


def compare_total_variation(own: np.ndarray, other: np.ndarray, names: tuple) -> dict[str, float]:
    """Compare the total variation distances from uniform of two independent samples of letters, int64[K].

    The permutation test deals the letters of both to two samples of the same sizes. Its statistic is the difference
    over its standard error, without which it would reject equal distances on different letters (Janssen 1997), less
    the mean over the deals: a smaller sample lies farther from uniform by chance. The interval is its inversion.
    """
    sizes, values = (int(own.sum()), int(other.sum())), (total_variation(own), total_variation(other))
    if min(sizes) < 2:
        return _result(min(sizes), values)
    seed, *rest = names
    rng = random_stream(seed, STREAM, "deals", *rest)
    dealt = rng.multivariate_hypergeometric(own + other, sizes[0], size=PATTERNS)
    first, second = np.concatenate([own[None], dealt]), np.concatenate([other[None], own + other - dealt])
    differences = total_variations(first) - total_variations(second)
    errors = np.maximum(_standard_errors(first, second), 1e-9)
    centred = differences / errors
    centre = float(centred[1:].mean())
    distances = np.abs(centred - centre)
    p = float((distances >= distances[0] - 1e-9).mean())
    reach = float(np.sort(distances)[-1 - math.floor(0.05 * len(distances))])
    ends = [float(differences[0] - (centre + side * reach) * errors[0]) for side in (1, -1)]
    floors = total_variation_floor(sizes[0]) - total_variation_floor(sizes[1])
    return _result(min(sizes), values, (ends[0], ends[1]), p, floors)


def transfer_comparisons(params: Params, evaluations: Evaluations) -> pd.DataFrame:
    """Tests of the ``method_pairs`` of all models, with what ``_result`` has, p_adjusted and verdict."""
    models, conditions = list(params.models), params.conditions
    pairs = [(model, own, other) for model in models for own, other in method_pairs(conditions)]
    results: dict[tuple, dict[str, float]] = {}
    questions = [("open", "open", metric) for metric in OPEN_METRICS]
    for metric in NOVELTY_METRICS:
        splits = set(rows_of(evaluations.metrics, axis="novelty", metric=metric)["split"]) - {ALL_PARTS}
        questions += [("novelty", split, metric) for split in (*sorted(splits), ALL_PARTS)]
    for question, (model, own, other) in product(questions, pairs):
        sides = [evaluations.by_unit(*question, model, condition) for condition in (own, other)]
        if not any(side is None for side in sides):
            both, names = pd.concat(sides, axis=1), (*question, model, own, other)
            results[names] = compare_prompts(*both.to_numpy().T, (params.seed, *names))
    # Sums over requests, as the strict parser reads.
    counts = (
        evaluations.stacked("mcq", "per_prompt", LETTER_COUNTS, models, conditions)
        .groupby(["model", "condition"])
        .sum()
    )
    for model, own, other in pairs:
        if {(model, own), (model, other)} <= set(counts.index):
            sides = [counts.loc[(model, condition)] for condition in (own, other)]
            letters = [side[LETTER_COUNTS].to_numpy(dtype=np.int64) for side in sides]
            names = ("mcq", "mcq", "mcq_total_variation", model, own, other)
            results[names] = compare_total_variation(*letters, (params.seed, *names))
    if not results:
        return pd.DataFrame()
    labels = ("axis", "split", "metric", "model", "condition", "against")
    tests = pd.DataFrame([dict(zip(labels, names, strict=True)) | result for names, result in results.items()])
    tests = tests.assign(p_adjusted=adjusted_by_question(tests))
    tests["verdict"] = [
        comparison_verdict(
            (row.ci_low, row.ci_high),
            row.p_adjusted,
            params.tests.significance,
            0.0,
            row.floor_difference,
            METRICS[row.metric].direction,
        )
        for row in tests.itertuples()
    ]
    by_axis = [evaluations.with_provenance(axis, members) for axis, members in tests.groupby("axis", sort=False)]
    return pd.concat(by_axis, ignore_index=True)


def transfer_tests_table(context: ReportContext, tests: pd.DataFrame) -> Table | None:
    """``transfer_comparisons`` as a table; None without any."""
    columns = {
        "Metric": lambda row: METRICS[row.metric].title,
        "Split": lambda row: row.split,
        "Model": lambda row: context.names[row.model],
        "Conditions": lambda row: f"{row.condition} − {row.against}",
        "n": lambda row: f"{row.n:,}",
        "Difference": lambda row: number_text(row.difference, METRICS[row.metric].decimals, "+"),
        "95% interval": lambda row: interval_text(row.ci_low, row.ci_high, METRICS[row.metric].decimals),
        "Uniform samplers": lambda row: number_text(row.floor_difference, METRICS[row.metric].decimals, "+"),
        "p": lambda row: probability_text(row.p),
        "Adjusted p": lambda row: probability_text(row.p_adjusted),
        "Verdict": lambda row: row.verdict,
    }
    return records_table(
        "transfer_tests",
        "Paired tests between conditions, beyond numbers",
        tests,
        columns,
        4,
        "Difference: first condition minus second. Open-ended answers and NoveltyBench: means over prompts, with a "
        "sign-flip test of the prompts' differences and the interval that is its inversion. "
        "Multiple choice has one request, so conditions are two samples of generations: total variation, of the "
        "questions that parse, with a permutation test that "
        "deals the letters of both to samples of the same sizes, and its inversion. Uniform samplers: the "
        "difference of what uniform samplers of the two sizes score; one that is no larger says nothing. Adjusted: "
        "over the splits of the same question (Holm), level "
        f"{context.params.tests.significance:g}; both splits together (all) are a question by itself, the primary "
        "one. Better or worse, or more and fewer where neither way is better (random letters would be the most various "
        "answers): adjusted p at most the level, and the interval on one side. No margin of relevance was set here.",
    )
