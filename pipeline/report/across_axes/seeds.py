"""Headline metrics over seeds: spread, intervals that hold for other seeds, differences seed by seed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from pipeline.axes import AXES
from pipeline.axes.registry import HEADLINES, METRICS, SHORT_SPLIT_TITLES
from pipeline.axes.structured.tables import per_prompt_metrics
from pipeline.config.evaluation import BASELINES
from pipeline.config.params import Params
from pipeline.config.seeds import SEED_TITLES, SEEDS
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.condition_tests import TESTED, method_pairs
from pipeline.core.statistics.intervals import bootstrap_families, over_families
from pipeline.core.statistics.seed_noise import Spread, spread
from pipeline.errors import ArtifactError
from pipeline.record.provenance import join_sources
from pipeline.report.across_axes.records import pair, records_table
from pipeline.report.evaluations import Evaluations, display_names
from pipeline.report.tables.table import DASH, MISSING, ListTable, interval_text

BY_CONDITION = ["axis", "split", "metric", "model", "condition"]


def difference_note(varied: Sequence[str]) -> str:
    """What differs between runs of different seeds; ``varied`` are those seeds' keys."""
    if "train_seed" in varied:
        text = "Adapters are trained anew with each seed"
        if "sampling_seed" in varied:
            text += "; base is one checkpoint, and differs by sampling alone."
        else:
            text += " and answer from the same random streams (sampling_seed is one): the spread is that of training."
    elif "sampling_seed" in varied:
        text = "train_seed is one: every condition is one checkpoint, and differs by sampling alone."
    else:
        text = "train_seed and sampling_seed are one: the same adapters gave the same answers."
    return f"Differing: {', '.join(varied)}. {text}"


def seed_values(seeds: Mapping[int, Evaluations], models: Mapping[str, str], conditions: Sequence[str]) -> pd.DataFrame:
    """The headline metrics of all seeds, baselines included.

    Returns:
        Columns axis, split, metric, model, condition, seed, value and provenance: one row per seed, in the order of
        models, axes, splits, metrics, conditions and seeds.
    """
    rows = pd.concat([found.metrics.assign(seed=seed) for seed, found in sorted(seeds.items())], ignore_index=True)
    wanted = [(axis, split, metric) for axis in HEADLINES for split in AXES[axis].splits for metric in HEADLINES[axis]]
    order = {name: place for place, name in enumerate(wanted)}
    ranks = {
        "model": {name: place for place, name in enumerate(models)},
        "condition": {name: place for place, name in enumerate((*conditions, *BASELINES))},
    }
    rows = rows[
        (rows["family"] == "") & rows["model"].isin(ranks["model"]) & rows["condition"].isin(ranks["condition"])
    ]
    rows = rows.assign(
        place=[order.get(names) for names in zip(rows["axis"], rows["split"], rows["metric"], strict=True)]
    )
    ranked = rows.dropna(subset="place").sort_values(
        ["model", "place", "condition", "seed"],
        key=lambda column: column.map(ranks[column.name]) if column.name in ranks else column,
        kind="stable",
    )
    return ranked[[*BY_CONDITION, "seed", "value", "provenance"]].reset_index(drop=True)


def paired_t_interval(differences: Sequence[float]) -> tuple[float, float]:
    """95% t interval of the mean of differences, one per seed; NaN with fewer than two or where one is undefined."""
    found = spread(differences)
    if not math.isfinite(found.deviation):
        return math.nan, math.nan
    margin = float(stats.t.ppf(0.975, found.seeds - 1)) * found.deviation / math.sqrt(found.seeds)
    return found.mean - margin, found.mean + margin


def spread_columns(found: Spread) -> dict[str, Any]:
    """Columns of a record of a metric's spread over seeds, as ``value_text`` reads them."""
    return {"status": "undefined" if found.undefined else "ok", **vars(found)}


def values_by_seed(values: Mapping[int, float]) -> str:
    """The column ``values`` of a record: "seed:value" in full precision, by seed."""
    return " ".join(f"{seed}:{value!r}" for seed, value in values.items())


def value_text(record: Mapping[str, Any]) -> str:
    """Mean, standard deviation and range over seeds; or why there is none."""
    if record["status"] == MISSING:
        return MISSING
    if record["undefined"]:
        return f"{DASH} (undefined in {record['undefined']} of {record['seeds']} seeds)"
    if not math.isfinite(record["deviation"]):
        return f"{record['mean']:.4f}"
    return f"{record['mean']:.4f} ± {record['deviation']:.4f} ({record['low']:.4f} to {record['high']:.4f})"


def value_records(values: pd.DataFrame, models: Mapping[str, str]) -> pd.DataFrame:
    """Spread of each metric over seeds, one row per BY_CONDITION in the order of ``seed_values``."""
    records = []
    for names, rows in values.groupby(BY_CONDITION, sort=False):
        by_seed = dict(zip(rows["seed"].tolist(), rows["value"].tolist(), strict=True))
        labels = dict(zip(BY_CONDITION, names, strict=True))
        records.append(
            {
                **labels,
                "display_name": models[labels["model"]],
                **spread_columns(spread(list(by_seed.values()))),
                "values": values_by_seed(by_seed),
                "provenance": join_sources(rows["provenance"]),
            }
        )
    return pd.DataFrame(records)


def difference_records(values: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]) -> pd.DataFrame:
    """Differences of ``method_pairs`` seed by seed, over the seeds that have both.

    One row per axis, split, metric, model and pair: ``difference`` is the mean over seeds, ``deviation``, ``low`` and
    ``high`` its spread, ``ci_low`` and ``ci_high`` the ``paired_t_interval``.
    """
    records = []
    for names, rows in values.groupby(BY_CONDITION[:4], sort=False):
        labels = dict(zip(BY_CONDITION[:4], names, strict=True))
        table = rows.pivot(index="seed", columns="condition", values=["value", "provenance"])
        for own, other in method_pairs(conditions):
            if not {own, other} <= set(rows["condition"]):
                continue
            # Of the seeds that have both; a value may be undefined, a provenance never.
            both = table[table["provenance"][[own, other]].notna().all(axis=1)]
            if both.empty:
                continue
            found = (both["value", own] - both["value", other]).astype(float)
            low, high = paired_t_interval(found.tolist())
            columns = spread_columns(spread(found.tolist()))
            records.append(
                {
                    **labels,
                    "display_name": models[labels["model"]],
                    "condition": own,
                    "against": other,
                    "difference": columns.pop("mean"),
                    **columns,
                    "values": values_by_seed(found.to_dict()),
                    "ci_low": low,
                    "ci_high": high,
                    "provenance": join_sources([*both["provenance", own], *both["provenance", other]]),
                }
            )
    return pd.DataFrame(records)


def interval_records(
    values: pd.DataFrame, seeds: Mapping[int, Evaluations], models: Mapping[str, str], seed: int, replicates: int
) -> pd.DataFrame:
    """Metrics by prompt averaged over seeds, with intervals that resample seeds, families and prompts.

    One row per metric of TESTED that two seeds or more have by prompt: ``value`` is the mean over seeds of each
    prompt, aggregated over families, and ``undefined`` counts prompts without a value in one of the seeds.

    Raises:
        ArtifactError: Two seeds answered different prompts of a split.
    """
    parts = [
        per_prompt_metrics(found, models, list(values["condition"].unique())).assign(seed=number)
        for number, found in seeds.items()
    ]
    by_prompt = dict(list(pd.concat(parts, ignore_index=True).groupby(["model", "split", "condition"])))
    tested = values[(values["axis"] == "structured") & values["metric"].isin(TESTED)]
    records = []
    for (_, split, metric, model, condition), members in tested.groupby(BY_CONDITION, sort=False):
        rows = by_prompt.get((model, split, condition), pd.DataFrame(columns=["seed"]))
        # Those of seeds that have the metric: an older evaluation may lack it.
        rows = rows[rows["seed"].isin(members["seed"])]
        if rows["seed"].nunique() < 2:
            continue
        sources = join_sources(members["provenance"])
        table = rows.pivot(index="prompt_id", columns="seed", values=metric)
        if len(rows) != table.size:
            raise ArtifactError(f"{sources}: the seeds answered different prompts of the split {split}")
        families = rows.drop_duplicates("prompt_id").set_index("prompt_id")["family"][table.index].to_numpy()
        by_seed, statistic = table.to_numpy(np.float64), TESTED[metric]
        means = by_seed.mean(axis=1)
        rng = random_stream(seed, "seed tables", "bootstrap", model, split, condition, metric)
        low, high = bootstrap_families(by_seed.T, families, statistic, replicates=replicates, rng=rng)
        records.append(
            {
                "model": model,
                "display_name": models[model],
                "split": split,
                "metric": metric,
                "condition": condition,
                "seeds": by_seed.shape[1],
                "prompts": len(means),
                "undefined": int((~np.isfinite(means)).sum()),
                "value": over_families(means, families, statistic),
                "ci_low": low,
                "ci_high": high,
                "provenance": sources,
            }
        )
    return pd.DataFrame(records)


def seed_tables(seeds: Mapping[int, Evaluations], params: Params, varied: Sequence[str] = SEEDS) -> list[ListTable]:
    """The tables over seeds; none with fewer than two seeds or without a headline metric.

    ``varied`` has the keys of the seeds that differ; the first is that of ``seeds``.

    Raises:
        ArtifactError: Two seeds answered different prompts.
    """
    models = display_names(params)
    values = seed_values(seeds, models, params.conditions) if len(seeds) > 1 else pd.DataFrame()
    if values.empty:
        return []
    intervals = interval_records(values, seeds, models, params.seed, params.evaluate.bootstrap_replicates)
    differences = difference_records(values, models, params.conditions)
    listed = ", ".join(map(str, sorted(seeds)))
    tables = [
        _value_table(value_records(values, models), params.conditions, listed),
        _interval_table(intervals),
        _difference_table(differences),
    ]
    title, note = SEED_TITLES[varied[0]], difference_note(varied)
    names = {"seeds": f"{title.lower()}s", "Seeds": f"{title}s"}
    return [
        replace(table, caption=table.caption.format(**names), note=f"{table.note.format(**names)} {note}")
        for table in tables
        if table is not None
    ]


def _metric(name: str) -> str:
    metric = METRICS[name]
    return metric.title if metric.direction == "neither" else f"{metric.title} ({metric.direction} is better)"


LABELS = {
    "Model": lambda row: row.display_name,
    "Split": lambda row: SHORT_SPLIT_TITLES.get(row.split, DASH),
    "Metric": lambda row: _metric(row.metric),
}


def _cells(rows: pd.DataFrame, conditions: Sequence[str]) -> list[str]:
    """The text of each condition's record; where one has fewer seeds than another, it says how many."""
    found = {row["condition"]: row for row in rows.to_dict("records")}
    most = max(row["seeds"] for row in found.values())
    texts = []
    for condition in conditions:
        text = value_text(found[condition]) if condition in found else MISSING
        fewer = condition in found and found[condition]["seeds"] < most
        texts.append(f"{text} [seeds: {found[condition]['seeds']}]" if fewer else text)
    return texts


def _value_table(records: pd.DataFrame, conditions: Sequence[str], listed: str) -> ListTable:
    conditions = [name for name in (*conditions, *BASELINES) if (records["condition"] == name).any()]
    rows = []
    for _, members in records.groupby(["model", "axis", "split", "metric"], sort=False):
        first = next(members.itertuples())
        labels = [text(first) for text in LABELS.values()]
        rows.append([*labels, str(members["seeds"].max()), *_cells(members, conditions)])
    note = (
        f"{{Seeds}} {listed}. Mean ± standard deviation between seeds (smallest to largest); undefined as soon "
        f"as one seed's value is. The table's file has the value of every seed."
    )
    header = [*LABELS, "Seeds", *conditions]
    return ListTable("seed_values", "Headline metrics over {seeds}", header, rows, 4, records, note)


def _interval_table(records: pd.DataFrame) -> ListTable | None:
    columns = {
        **LABELS,
        "Condition": lambda row: row.condition,
        "Seeds": lambda row: str(row.seeds),
        "Prompts": lambda row: str(row.prompts),
        "All seeds together": lambda row: (
            f"{row.value:.4f}" if math.isfinite(row.value) else f"{DASH} ({row.undefined} undefined)"
        ),
        "95% interval": lambda row: interval_text(row.ci_low, row.ci_high, sign=""),
    }
    note = (
        "All seeds together: a prompt's value is its mean over seeds; then mean within family; across families the "
        "median, of logit KL the mean "
        "(the mean of the seeds' own medians is another number). Undefined: prompts without a value in one of the "
        "seeds; the number is undefined where a family has no other prompt. Interval: 95%, {seeds}, families "
        "and prompts resampled, seeds crossed with prompts (Owen 2007); with two or three seeds their part of it is "
        "rough, and too small."
    )
    return records_table(
        "seed_intervals", "Structured sampling over {seeds}, with intervals", records, columns, 4, note
    )


def _difference_table(records: pd.DataFrame) -> ListTable | None:
    columns = {
        **LABELS,
        "Conditions": pair,
        "Seeds": lambda row: str(row.seeds),
        "Difference": _difference,
        "Range": lambda row: f"{row.low:+.4f} to {row.high:+.4f}" if row.status == "ok" else DASH,
        "95% interval": lambda row: interval_text(row.ci_low, row.ci_high),
    }
    note = (
        "Difference: of the two conditions under the same seed, mean over seeds ± standard deviation between them. "
        "Range: smallest to largest. Interval: 95%, of the mean over {seeds}, Student's t of the differences "
        "with one degree of freedom less than seeds; it holds for these prompts and takes the differences as normal. "
        "With one seed there is none; with two it is 9 standard deviations to each side."
    )
    return records_table("seed_differences", "Differences between conditions over {seeds}", records, columns, 4, note)


def _difference(row: Any) -> str:
    if row.status != "ok":
        return f"{DASH} (undefined in {row.undefined} of {row.seeds} seeds)"
    return f"{row.difference:+.4f}" + (f" ± {row.deviation:.4f}" if math.isfinite(row.deviation) else "")
