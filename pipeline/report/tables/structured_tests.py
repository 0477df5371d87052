"""The table of paired tests between conditions of structured sampling."""

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from pipeline.artifacts.storage import read_table
from pipeline.core.statistics.condition_tests import PAIRS, TESTED, compare_conditions
from pipeline.metrics.registry import METRICS, SHORT_SPLIT_TITLES
from pipeline.report.evaluations import Evaluations
from pipeline.report.tables.table import DASH, ListTable

TABLE = "structured_tests"
_NAMES = ("prompt_id", "split", "family")


COMPARED = tuple(dict.fromkeys(condition for pair in PAIRS for condition in pair))
"""Conditions that are part of a test."""


def per_prompt_metrics(
    evaluations: Evaluations, models: Mapping[str, str], conditions: Sequence[str] = COMPARED
) -> pd.DataFrame:
    """Columns model, condition, prompt_id, split, family and TESTED (NaN where a condition lacks one).

    Args:
        evaluations: What there is.
        models: Model name -> display name.
        conditions: Conditions in order, within each model.

    Raises:
        ArtifactError: A table is truncated or names no prompts.
    """
    parts = []
    for model in models:
        for condition in conditions:
            path = evaluations.path("structured", model, condition, "per_prompt.parquet")
            if path is not None:
                table = (
                    read_table(path, _NAMES).reindex(columns=[*_NAMES, *TESTED]).astype(dict.fromkeys(TESTED, float))
                )
                parts.append(table.assign(model=model, condition=condition))
    columns = ["model", "condition", *_NAMES, *TESTED]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def perfect_sampler_scores(metrics: pd.DataFrame) -> dict[tuple[str, str, str, str], float]:
    """Floor of each aggregate of structured sampling by (model, condition, split, metric)."""
    chosen = metrics[(metrics["axis"] == "structured") & (metrics["family"] == "") & metrics["metric"].isin(TESTED)]
    columns = ["model", "condition", "split", "metric"]
    return dict(zip(chosen[columns].itertuples(index=False, name=None), chosen["floor"], strict=True))


def structured_tests_table(
    evaluations: Evaluations, models: Mapping[str, str], seed: int, significance: float, replicates: int
) -> ListTable | None:
    """Paired tests of soft and hard against base, of soft against hard and of SSOT against soft; None without pairs.

    Args:
        evaluations: What there is.
        models: Model name -> display name.
        seed: Root seed of the tests.
        significance: Level, over all models and pairs of a split and metric.
        replicates: Resamples of each interval.
    """
    per_prompt = per_prompt_metrics(evaluations, models)
    floors = perfect_sampler_scores(evaluations.metrics)
    tests = compare_conditions(per_prompt, floors, seed, significance, replicates)
    if tests.empty:
        return None
    header = [
        "Split",
        "Metric",
        "Model",
        "Conditions",
        "Prompts",
        "Difference",
        "95% interval",
        "Perfect samplers",
        "p",
        "Adjusted p",
        "Verdict",
    ]
    rows = [
        [
            SHORT_SPLIT_TITLES.get(row.split, row.split),
            METRICS[row.metric].title,
            models[row.model],
            f"{row.condition} − {row.against}",
            str(row.prompts),
            _signed(row.difference),
            f"[{_signed(row.ci_low)}, {_signed(row.ci_high)}]" if math.isfinite(row.ci_low) else DASH,
            _signed(row.floor_difference),
            _probability(row.p),
            _probability(row.p_adjusted),
            f"undefined: {row.undefined} prompts" if row.verdict == "undefined" else row.verdict,
        ]
        for row in tests.itertuples()
    ]
    return ListTable(
        TABLE,
        "Paired tests between conditions, structured sampling",
        header,
        rows,
        4,
        tests,
        "Difference: of the same prompts' values, mean within family and median across families; below 0 the first "
        "condition is closer to the target. p: two-sided permutation test of the signed ranks of the prompts' "
        "differences, every family with the same weight; "
        f"adjusted over all models and pairs of a split and metric (Holm), level {significance:g}. Interval: 95%, "
        "families and prompts resampled, of one test without adjustment. Perfect samplers: the same difference of "
        "perfect samplers of the two sizes; where sizes differ, a difference that is no larger says nothing. One "
        "trained model per condition: the tests are of these models, not of the methods over training seeds.",
    )


def _signed(value: float) -> str:
    return f"{value:+.4f}" if math.isfinite(value) else DASH


def _probability(value: float) -> str:
    if not math.isfinite(value):
        return DASH
    return "<0.001" if value < 0.001 else f"{value:.3f}"
