"""Headline metrics over training seeds: spread, intervals that hold for other seeds, differences seed by seed."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from pipeline.config.evaluation import BASELINES
from pipeline.config.params import CONDITIONS
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.condition_tests import TESTED
from pipeline.core.statistics.intervals import family_median, hierarchical_bootstrap
from pipeline.core.statistics.seed_noise import spread
from pipeline.errors import ArtifactError
from pipeline.metrics.registry import HEADLINES, SPLITS
from pipeline.record.table_cell import join_sources
from pipeline.report.evaluations import Evaluations
from pipeline.report.tables.structured_tests import per_prompt_metrics

PAIRS = (("soft", "base"), ("hard", "base"), ("soft", "hard"))
"""Differences: first minus second."""
BY_CONDITION = ["axis", "split", "metric", "model", "condition"]


def seed_values(seeds: Mapping[int, Evaluations], models: Mapping[str, str]) -> pd.DataFrame:
    """The headline metrics of all seeds.

    Args:
        seeds: Evaluations by seed.
        models: Model name -> display name.

    Returns:
        Columns axis, split, metric, model, condition, seed, value and provenance: one row per seed, in the order of
        models, axes, splits, metrics, conditions and seeds.
    """
    rows = pd.concat([found.metrics.assign(seed=seed) for seed, found in sorted(seeds.items())], ignore_index=True)
    wanted = [(axis, split, metric) for axis in HEADLINES for split in SPLITS[axis] for metric in HEADLINES[axis]]
    order = {name: place for place, name in enumerate(wanted)}
    conditions = (*CONDITIONS, *BASELINES)
    rows = rows[(rows["family"] == "") & rows["model"].isin(list(models)) & rows["condition"].isin(conditions)]
    places = [order.get(names, -1) for names in rows[BY_CONDITION[:3]].itertuples(index=False, name=None)]
    models_and_conditions = zip(rows["model"], rows["condition"], strict=True)
    ranks = [(list(models).index(model), conditions.index(condition)) for model, condition in models_and_conditions]
    key = [(model, place, condition) for (model, condition), place in zip(ranks, places, strict=True)]
    ranked = rows.assign(key=key)[np.array(places) >= 0].sort_values(["key", "seed"], kind="stable")
    return ranked[[*BY_CONDITION, "seed", "value", "provenance"]].reset_index(drop=True)


def paired_t_interval(differences: Sequence[float]) -> tuple[float, float]:
    """95% t interval of the mean of differences, one per seed; NaN with fewer than two or where one is undefined."""
    found = spread(differences)
    if not math.isfinite(found.deviation):
        return math.nan, math.nan
    margin = float(stats.t.ppf(0.975, found.seeds - 1)) * found.deviation / math.sqrt(found.seeds)
    return found.mean - margin, found.mean + margin


def _spread_columns(values: Mapping[int, float]) -> dict[str, Any]:
    """Columns of one record from its values by seed, as ``value_text`` reads them."""
    found = spread(list(values.values()))
    return {
        "status": "undefined" if found.undefined else "ok",
        "seeds": found.seeds,
        "undefined": found.undefined,
        "mean": found.mean,
        "deviation": found.deviation,
        "low": found.low,
        "high": found.high,
        "values": " ".join(f"{seed}:{value!r}" for seed, value in values.items()),
    }


def value_records(values: pd.DataFrame, models: Mapping[str, str]) -> pd.DataFrame:
    """Spread of each metric over seeds, one row per BY_CONDITION in the order of ``seed_values``.

    Further columns: display_name, status, seeds, undefined, mean, deviation, low, high, values ("seed:value") and
    provenance.
    """
    records = []
    for names, rows in values.groupby(BY_CONDITION, sort=False):
        by_seed = dict(zip(rows["seed"].tolist(), rows["value"].tolist(), strict=True))
        labels = dict(zip(BY_CONDITION, names, strict=True))
        records.append(
            {
                **labels,
                "display_name": models[labels["model"]],
                **_spread_columns(by_seed),
                "provenance": join_sources(rows["provenance"]),
            }
        )
    return pd.DataFrame(records)


def difference_records(values: pd.DataFrame, models: Mapping[str, str]) -> pd.DataFrame:
    """Differences of PAIRS seed by seed, over the seeds that have both; one row per axis, split, metric, model, pair.

    Columns: axis, split, metric, model, display_name, condition, against, status, seeds, undefined, difference (the
    mean over seeds), deviation, low, high, ci_low and ci_high (``paired_t_interval``), values and provenance.
    """
    records = []
    for names, rows in values.groupby(BY_CONDITION[:4], sort=False):
        labels = dict(zip(BY_CONDITION[:4], names, strict=True))
        members = {condition: part.set_index("seed") for condition, part in rows.groupby("condition", sort=False)}
        for own, other in PAIRS:
            if own not in members or other not in members:
                continue
            seeds = [seed for seed in members[own].index if seed in members[other].index]
            if not seeds:
                continue
            first, second = (members[condition].loc[seeds] for condition in (own, other))
            differences = dict(zip(seeds, (first["value"] - second["value"]).tolist(), strict=True))
            low, high = paired_t_interval(list(differences.values()))
            columns = _spread_columns(differences)
            records.append(
                {
                    **labels,
                    "display_name": models[labels["model"]],
                    "condition": own,
                    "against": other,
                    "difference": columns.pop("mean"),
                    **columns,
                    "ci_low": low,
                    "ci_high": high,
                    "provenance": join_sources([*first["provenance"], *second["provenance"]]),
                }
            )
    return pd.DataFrame(records)


def interval_records(
    values: pd.DataFrame, seeds: Mapping[int, Evaluations], models: Mapping[str, str], seed: int, replicates: int
) -> pd.DataFrame:
    """Metrics by prompt averaged over seeds, with intervals that resample seeds, families and prompts.

    Args:
        values: ``seed_values``.
        seeds: Evaluations by seed.
        models: Model name -> display name.
        seed: Root seed of the bootstrap.
        replicates: Resamples of each interval.

    Returns:
        Columns model, display_name, split, metric, condition, seeds, prompts, undefined (prompts without a value in
        one of the seeds), value (mean over seeds of each prompt, mean within family, median across families), ci_low,
        ci_high and provenance; one row per metric of TESTED that two seeds or more have by prompt.

    Raises:
        ArtifactError: Two seeds answered different prompts of a split.
    """
    conditions = list(values["condition"].unique())
    parts = [per_prompt_metrics(found, models, conditions).assign(seed=number) for number, found in seeds.items()]
    by_prompt = dict(list(pd.concat(parts, ignore_index=True).groupby(["model", "split", "condition"])))
    tested = values[(values["axis"] == "structured") & values["metric"].isin(TESTED)]
    records = []
    for (_, split, metric, model, condition), members in tested.groupby(BY_CONDITION, sort=False):
        rows = by_prompt.get((model, split, condition), pd.DataFrame(columns=["seed"]))
        rows = rows[rows["seed"].isin(members["seed"])]
        if rows["seed"].nunique() < 2:
            continue
        sources = join_sources(members["provenance"])
        table = rows.pivot(index="prompt_id", columns="seed", values=metric)
        if len(rows) != table.size:
            raise ArtifactError(f"{sources}: the seeds answered different prompts of the split {split}")
        families = rows.drop_duplicates("prompt_id").set_index("prompt_id")["family"][table.index].to_numpy()
        by_seed, means = table.to_numpy(np.float64).T, table.to_numpy(np.float64).mean(axis=1)
        rng = random_stream(seed, "seed tables", "bootstrap", model, split, condition, metric)
        low, high = hierarchical_bootstrap(by_seed, families, "family_median", replicates=replicates, rng=rng)
        records.append(
            {
                "model": model,
                "display_name": models[model],
                "split": split,
                "metric": metric,
                "condition": condition,
                "seeds": len(by_seed),
                "prompts": len(means),
                "undefined": int((~np.isfinite(means)).sum()),
                "value": family_median(means, families),
                "ci_low": low,
                "ci_high": high,
                "provenance": sources,
            }
        )
    return pd.DataFrame(records)
