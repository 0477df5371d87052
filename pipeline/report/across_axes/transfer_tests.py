"""Paired tests of what carries over to language: open-ended answers, NoveltyBench and multiple choice."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pipeline.axes.mcq.multiple_choice import PARSERS
from pipeline.axes.novelty.report import DISTINCT, UTILITY
from pipeline.axes.registry import METRICS
from pipeline.config.retention import TestsConfig
from pipeline.core.prompts.multiple_choice import LETTERS
from pipeline.core.statistics.condition_tests import (
    ALL_PARTS,
    adjusted_by_question,
    comparison_verdict,
    method_pairs,
)
from pipeline.report.across_axes.resampling import (
    TransferTest,
    compare_prompts,
    compare_rates,
    compare_total_variation,
)
from pipeline.report.evaluations import Evaluations, rows_of
from pipeline.report.tables.table import ListTable, interval_text, probability_text, signed_text

TESTS_TABLE = "transfer_tests"
OPEN_METRICS = ("top_p_support_size", "unique_fraction")
Question = tuple[str, str, str]
"""Axis, split and metric."""
_TITLES = (
    "Metric",
    "Split",
    "Model",
    "Conditions",
    "n",
    "Difference",
    "95% interval",
    "Uniform samplers",
    "p",
    "Adjusted p",
    "Verdict",
)


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
    rated = evaluations.stacked(
        "novelty", "per_prompt", ("prompt_id", "split", "distinct", "utility"), models, conditions
    )
    reported = rows_of(metrics, axis="novelty")
    names = set(zip(reported["model"], reported["condition"], reported["metric"], strict=True))
    splits = [*dict.fromkeys(rated["split"]), ALL_PARTS]
    for column, metric in [
        (c, name) for c, by in (("distinct", DISTINCT), ("utility", UTILITY)) for name in by.values()
    ]:
        keys = zip(rated["model"], rated["condition"], strict=True)
        own = rated[np.array([(*key, metric) in names for key in keys], dtype=bool)]
        for split in splits:
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
    """The ``method_pairs`` of all models on the transfer axes.

    Args:
        evaluations: What there is.
        metrics: The tidy metrics table.
        models: Model name -> display name.
        conditions: Base and the methods, in order.
        seed: Root seed of the tests.
        settings: Level; the axes have no margin.
        replicates: Resamples of each interval.

    Returns:
        Columns axis, split, metric, model, condition, against, those of ``TransferTest``, p_adjusted, verdict and
        provenance; empty where there is no pair.
    """
    rows, pairs = [], method_pairs(conditions)
    for question, table in values_by_prompt(evaluations, metrics, list(models), conditions).items():
        for model, own, other in _existing(pairs, models, set(table.columns)):
            values = (table[model, condition].to_numpy() for condition in (own, other))
            rows.append(
                _row(
                    question,
                    model,
                    own,
                    other,
                    compare_prompts(*values, seed, (*question, model, own, other), replicates),
                )
            )
    counts = letter_counts(evaluations, list(models), conditions)
    for suffix in PARSERS:
        for model, own, other in _existing(pairs, models, set(counts)):
            first, second = counts[model, own], counts[model, other]
            parsed, asked = ((int(first[c]), int(second[c])) for c in (f"num_parsed{suffix}", "num_samples"))
            rate = ("mcq", "mcq", f"mcq_parse_rate{suffix}")
            rows.append(_row(rate, model, own, other, compare_rates(parsed, asked)))
            balance = ("mcq", "mcq", f"mcq_total_variation{suffix}")
            letters = letters_of(first, suffix), letters_of(second, suffix)
            names = (*balance, model, own, other)
            rows.append(_row(balance, model, own, other, compare_total_variation(*letters, seed, names, replicates)))
    found = pd.DataFrame(rows)
    if found.empty:
        return found
    found["p_adjusted"] = adjusted_by_question(found)
    found["verdict"] = [
        comparison_verdict(
            (row.ci_low, row.ci_high),
            row.p_adjusted,
            settings.significance,
            floor_difference=row.floor_difference,
            higher_is_better=METRICS[row.metric].direction == "higher",
        )
        for row in found.itertuples()
    ]
    by_axis = [evaluations.with_provenance(axis, members) for axis, members in found.groupby("axis", sort=False)]
    return pd.concat(by_axis, ignore_index=True)


def _existing(
    pairs: Sequence[tuple[str, str]], models: Mapping[str, str], existing: set[tuple[str, str]]
) -> list[tuple[str, str, str]]:
    return [
        (model, own, other) for model in models for own, other in pairs if {(model, own), (model, other)} <= existing
    ]


def _row(question: Question, model: str, own: str, other: str, found: TransferTest) -> dict[str, Any]:
    labels = dict(zip(("axis", "split", "metric"), question, strict=True))
    return {**labels, "model": model, "condition": own, "against": other, **vars(found)}


def transfer_tests_table(tests: pd.DataFrame, models: Mapping[str, str], significance: float) -> ListTable | None:
    """The tests as a table; None without any.

    Args:
        tests: ``transfer_comparisons``.
        models: Model name -> display name.
        significance: Their level.
    """
    if tests.empty:
        return None
    return ListTable(
        TESTS_TABLE,
        "Paired tests between conditions, beyond numbers",
        _TITLES,
        [_texts(row, models) for row in tests.itertuples()],
        4,
        tests,
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


def _texts(row: Any, models: Mapping[str, str]) -> list[str]:
    decimals = METRICS[row.metric].decimals
    return [
        METRICS[row.metric].title,
        row.split,
        models[row.model],
        f"{row.condition} − {row.against}",
        f"{row.n:,}",
        signed_text(row.difference, decimals),
        interval_text(row.ci_low, row.ci_high, decimals),
        signed_text(row.floor_difference, decimals) if math.isfinite(row.floor_difference) else "",
        probability_text(row.p),
        probability_text(row.p_adjusted),
        row.verdict,
    ]
