"""From per-prompt results to reported numbers: families, splits, intervals, floors."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np
import pandas as pd

from pipeline.axes.structured.fidelity import DISTANCES, TAILS, UNIFORMITY_TESTS
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.condition_tests import TESTED
from pipeline.core.statistics.intervals import (
    Estimate,
    bootstrap_families,
    clustered_wilson_interval,
    family_means,
    hierarchical_bootstrap,
    metric_row,
    over_families,
    wilson_interval,
)

HEADLINES = (
    "wasserstein_1_normalised",
    "wasserstein_1_window_normalised",
    "wasserstein_1_normalised_at_budget",
    "logit_kl_nats",
    *DISTANCES,
)
"""Per-prompt columns, aggregated as the paper does (family mean, then median, or as in TESTED), where the condition has
them."""

MEDIANS = {"logit_kl_family_median_nats": "logit_kl_nats"}
"""Medians across families of columns whose mean is tabulated: name -> column."""

MEANS = ("answers_at_budget", "valid_rate_at_budget")
"""Per-prompt columns whose mean over the split's prompts is reported."""

FAMILY_MEANS = {"wasserstein_1_family_mean": "wasserstein_1"}
"""Metrics that are the mean over families of family means, and their per-prompt columns: what the paper's released code
summarises."""

PROMPT_MEDIANS = {"wasserstein_1_normalised_prompt_median": "wasserstein_1_normalised"}
"""Medians over the prompts of each family, reported by family only: name -> column."""

COMPANIONS = (
    "exact_wasserstein_1_normalised",
    "exact_wasserstein_1_normalised_low",
    "exact_wasserstein_1_normalised_high",
    "exact_support_rate",
    "exact_valid_rate_low",
    "exact_valid_rate_high",
    "logit_kl_rounded_law_nats",
    "exact_logit_kl_nats",
    "exact_sequence_kl_nats",
    "exact_total_variation",
    "exact_constrained_wasserstein_1_normalised",
    "exact_constrained_total_variation",
)
"""Further columns, aggregated alike where every prompt of the split has a value."""

REJECTED_BELOW = 0.05
"""Level of the tests of uniformity, after Holm's adjustment."""


def aggregate_split(
    per_prompt: pd.DataFrame,
    floors: Mapping[str, np.ndarray],
    *,
    seed: int,
    names: tuple[str, ...],
    bootstrap_replicates: int,
    deviations: Mapping[str, np.ndarray] | None = None,
) -> list[dict]:
    """Rows of one split: each headline over all families and for every family, and the valid rate.

    Args:
        per_prompt: One row per prompt: family, num_samples, num_valid and the headline columns.
        floors: By metric, float64[P, R]: what R perfect samplers score on each prompt.
        seed: Root seed of the bootstrap; ``names`` complete its stream's name.
        names: Axis, model, condition, split.
        bootstrap_replicates: Resamples per interval.
        deviations: By metric, float64[P, B]: how each prompt's value varies with its samples.

    Returns:
        Dictionaries with family ("" on aggregates), metric, value (NaN where undefined),
        n, ci_low, ci_high, floor, undefined. ``tokens_per_answer`` is generated tokens of the split over its
        valid answers. ``n`` counts valid answers for distances of samples, all answers for the
        valid rate and for distances over all answers, prompts that were tested for shares of rejected prompts,
        else prompts with a value.
        The interval of the aggregate resamples families, prompts and, where there are deviations, samples
        (``hierarchical_bootstrap``); that of one family its prompts and samples, of which three prompts show little
        more than their range. That of a valid rate within a family
        is Wilson's for answers that come by prompt (``clustered_wilson_interval``); with one prompt per family, as in
        the paper's selection of unseen parameters, there is no level of prompts, and the interval is for redrawing
        that prompt's answers. That of a share of rejected prompts is Wilson's.
    """
    families = per_prompt["family"].to_numpy()
    rows = _distances(per_prompt, families, floors, deviations or {}, seed, names, bootstrap_replicates)
    rows += _prompt_medians(per_prompt, families, floors, deviations or {}, seed, names, bootstrap_replicates)
    for metric in (name for name in MEANS if name in per_prompt):
        values = per_prompt[metric].to_numpy(dtype=np.float64)
        rng = random_stream(seed, "bootstrap", *names, metric, "")
        low, high = bootstrap_families(values, families, "mean", replicates=bootstrap_replicates, rng=rng)
        finite = values[np.isfinite(values)]
        value = float(finite.mean()) if len(finite) else math.nan
        rows.append(metric_row(metric, Estimate(value, len(finite), low, high, len(values) - len(finite))))
    for metric in (name for name, column in FAMILY_MEANS.items() if column in per_prompt):
        values = per_prompt[FAMILY_MEANS[metric]].to_numpy(dtype=np.float64)
        value, n = over_families(values, families, "family_mean"), int(np.isfinite(values).sum())
        rows.append(metric_row(metric, Estimate(value, n, undefined=_undefined_families(values, families))))
    if "num_tokens" in per_prompt:
        valid, undefined = int(per_prompt["num_valid"].sum()), int((per_prompt["num_valid"] == 0).sum())
        tokens = per_prompt["num_tokens"].sum() / valid if valid else math.nan
        rows.append(metric_row("tokens_per_answer", Estimate(float(tokens), valid, undefined=undefined)))
    rows.extend(_rejected_shares(per_prompt))
    rows.extend(valid_rates(per_prompt, families, seed, names, bootstrap_replicates))
    return rows


def _undefined_families(values: np.ndarray, families: np.ndarray) -> int:
    """Families without a finite value."""
    return sum(not math.isfinite(mean) for mean in family_means(values, families).values())


def _distances(
    per_prompt: pd.DataFrame,
    families: np.ndarray,
    floors: Mapping[str, np.ndarray],
    deviations: Mapping[str, np.ndarray],
    seed: int,
    names: tuple[str, ...],
    replicates: int,
) -> list[dict]:
    """Rows of what is aggregated over families: headlines and companions by family, too, tails over all only."""
    rows = []
    complete = [name for name in COMPANIONS if name in per_prompt and per_prompt[name].notna().all()]
    by_family = [name for name in HEADLINES if name in per_prompt] + complete
    medians = [name for name, column in MEDIANS.items() if column in per_prompt]
    for metric in (*by_family, *medians, *(name for name in TAILS if name in per_prompt)):
        values, units = per_prompt[MEDIANS.get(metric, metric)].to_numpy(dtype=np.float64), _units(metric)
        statistic = TESTED.get(metric, "family_median")
        for family in ("", *dict.fromkeys(families.tolist())) if metric in by_family else ("",):
            chosen = np.ones(len(values), dtype=bool) if not family else families == family
            rng = random_stream(seed, "bootstrap", *names, metric, family)
            varied = deviations[metric][chosen] if metric in deviations else None
            drawn = floors[metric][chosen] if metric in floors else None
            own, labels = values[chosen], families[chosen]
            n = int(per_prompt[units].to_numpy()[chosen].sum()) if units else int(chosen.sum())
            estimate, floor = estimate_over_families(own, labels, statistic, n, varied, drawn, rng, replicates)
            rows.append(metric_row(metric, estimate, family=family, floor=floor))
    return rows


def estimate_over_families(
    values: np.ndarray,
    labels: np.ndarray,
    statistic: Literal["family_median", "family_mean"],
    n: int,
    deviations: np.ndarray | None,
    floors: np.ndarray | None,
    rng: np.random.Generator,
    replicates: int,
) -> tuple[Estimate, float]:
    """A statistic over families with its interval, of float64[P] values of str or int[P] families; and its floor."""
    low, high = hierarchical_bootstrap(values, labels, statistic, replicates=replicates, rng=rng, deviations=deviations)
    # A resampled distance may fall below 0, a distance cannot.
    low = low if deviations is None else float(np.maximum(0.0, low))
    floor = math.nan
    if floors is not None:
        floor = float(np.mean([over_families(draw, labels, statistic) for draw in floors.T]))
    undefined = _undefined_families(values, labels)
    return Estimate(over_families(values, labels, statistic), n, low, high, undefined), floor


def _prompt_medians(
    per_prompt: pd.DataFrame,
    families: np.ndarray,
    floors: Mapping[str, np.ndarray],
    deviations: Mapping[str, np.ndarray],
    seed: int,
    names: tuple[str, ...],
    replicates: int,
) -> list[dict]:
    """Rows of PROMPT_MEDIANS: of the prompts that have a value; ``undefined`` counts the others."""
    rows = []
    for metric, column in PROMPT_MEDIANS.items():
        if column not in per_prompt:
            continue
        values = per_prompt[column].to_numpy(dtype=np.float64)
        for family in dict.fromkeys(families.tolist()):
            members = np.flatnonzero(families == family)
            chosen = members[np.isfinite(values[members])]
            estimate, floor = Estimate(math.nan, 0), math.nan
            if len(chosen):
                # Every prompt is a family of its own here: the median across them is the prompts'.
                estimate, floor = estimate_over_families(
                    values[chosen],
                    chosen,
                    "family_median",
                    int(per_prompt["num_valid"].to_numpy()[chosen].sum()),
                    deviations[column][chosen] if column in deviations else None,
                    floors[column][chosen] if column in floors else None,
                    random_stream(seed, "bootstrap", *names, metric, family),
                    replicates,
                )
            estimate = replace(estimate, undefined=len(members) - len(chosen))
            rows.append(metric_row(metric, estimate, family=family, floor=floor))
    return rows


def _units(metric: str) -> str | None:
    """Column whose sum is the metric's n; None for a metric of prompts."""
    if metric.endswith("_at_budget"):
        return "num_valid_at_budget"
    if metric == "pit_wasserstein_1_all_answers":
        return "num_samples"
    sampled = metric.startswith("wasserstein") or metric in DISTANCES or metric in TAILS
    return "num_valid" if sampled else None


def _rejected_shares(per_prompt: pd.DataFrame) -> list[dict]:
    """Share of prompts whose PITs are shown not to be uniform, by each test."""
    rows = []
    for metric, column in UNIFORMITY_TESTS.items():
        if f"{column}_adjusted" not in per_prompt:
            continue
        p_values = per_prompt[f"{column}_adjusted"].to_numpy(dtype=np.float64)
        tested = int(np.isfinite(p_values).sum())
        rejected = int((p_values <= REJECTED_BELOW).sum())
        value = rejected / tested if tested else math.nan
        interval = wilson_interval(rejected, tested)
        rows.append(metric_row(metric, Estimate(value, tested, *interval, len(p_values) - tested)))
    return rows


def valid_rates(
    per_prompt: pd.DataFrame,
    families: np.ndarray,
    seed: int,
    names: tuple[str, ...],
    replicates: int,
    metric: str = "valid_rate",
) -> list[dict]:
    """Share of all generations that are valid, over all and by family. As many per prompt make it a mean.

    Args:
        per_prompt: Columns num_valid and num_samples, one row per prompt.
        families: str[P].
        seed: Root seed of the bootstrap; ``names`` complete its stream's name.
        names: Axis, model, condition, split.
        replicates: Resamples of the interval over all; that of a family is ``clustered_wilson_interval``.
        metric: Name of the rows.
    """
    rates = (per_prompt["num_valid"] / per_prompt["num_samples"]).to_numpy(dtype=np.float64)
    rows = []
    for family in ("", *dict.fromkeys(families.tolist())):
        chosen = np.ones(len(rates), dtype=bool) if not family else families == family
        valid = int(per_prompt["num_valid"].to_numpy()[chosen].sum())
        total = int(per_prompt["num_samples"].to_numpy()[chosen].sum())
        if family:
            members = per_prompt[chosen]
            low, high = clustered_wilson_interval(members["num_valid"].to_numpy(), members["num_samples"].to_numpy())
        else:
            rng = random_stream(seed, "bootstrap", *names, metric, family)
            low, high = bootstrap_families(rates, families, "mean", replicates=replicates, rng=rng)
        value = valid / total if total else math.nan
        rows.append(metric_row(metric, Estimate(value, total, low, high), family=family))
    return rows


def failure_counts(per_prompt: pd.DataFrame) -> dict[str, int]:
    """Generations by reason of invalidity, and valid but outlying samples, where there are any."""
    columns = [column for column in per_prompt.columns if column.startswith("invalid_")]
    counts = {column.removeprefix("invalid_"): int(per_prompt[column].sum()) for column in columns}
    counts["valid_outlier"] = int(per_prompt["num_outliers"].sum())
    return {reason: count for reason, count in counts.items() if count}
