"""Headline metrics over seeds: their spread, and changes from base seed by seed."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from pipeline.axes import AXES
from pipeline.axes.registry import HEADLINES, METRICS, SHORT_SPLIT_TITLES
from pipeline.config.evaluation import BASELINES
from pipeline.config.params import BASE, Params
from pipeline.config.seeds import SEED_TITLES, SEEDS
from pipeline.core.statistics.seed_noise import Spread, spread
from pipeline.record.provenance import join_sources
from pipeline.report.evaluations import Evaluations, display_names
from pipeline.report.table import DASH, MISSING, Table, interval_text, number_text, records_table

LABELS = ["model", "axis", "split", "metric"]


def seed_values(seeds: Mapping[int, Evaluations], models: Mapping[str, str], conditions: Sequence[str]) -> pd.DataFrame:
    """The headline metrics of all seeds in order: LABELS, condition, seed, value and provenance."""
    rows = pd.concat([found.metrics.assign(seed=seed) for seed, found in seeds.items()], ignore_index=True)
    wanted = [
        (model, axis, split, metric, condition)
        for model in models
        for axis in HEADLINES
        for split in AXES[axis].splits
        for metric in HEADLINES[axis]
        for condition in (*conditions, *BASELINES)
    ]
    columns = [*LABELS, "condition"]
    ranks = pd.MultiIndex.from_tuples(wanted).get_indexer(pd.MultiIndex.from_frame(rows[columns]))
    chosen = rows.assign(rank=ranks)[(ranks >= 0) & (rows["family"] == "")]
    return chosen.sort_values(["rank", "seed"])[[*columns, "seed", "value", "provenance"]].reset_index(drop=True)


def paired_change(own: Mapping[int, float], base: Mapping[int, float]) -> dict[str, float]:
    """Mean difference from base under the same seed and its 95% t interval, which is NaN with fewer than two seeds."""
    shared = [float(own[seed] - base[seed]) for seed in own if seed in base]
    change = {"change": float(np.mean(shared)) if shared else math.nan, "change_low": math.nan, "change_high": math.nan}
    if len(shared) > 1 and np.isfinite(shared).all():
        change["change_low"], change["change_high"] = stats.ttest_1samp(shared, 0).confidence_interval()
    return change


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
    ends = f"{record['low']:.4f} to {record['high']:.4f}"
    return f"{record['mean']:.4f} ± {record['deviation']:.4f} ({ends})"


def value_records(values: pd.DataFrame) -> pd.DataFrame:
    """Spread of each metric over seeds and its change from base, one row per model, axis, split, metric, condition."""
    records = []
    for names, members in values.groupby(LABELS, sort=False):
        by_seed = {
            condition: dict(zip(rows["seed"].tolist(), rows["value"].tolist(), strict=True))
            for condition, rows in members.groupby("condition", sort=False)
        }
        for condition, own in by_seed.items():
            record = dict(zip(LABELS, names, strict=True)) | {"condition": condition}
            record |= spread_columns(spread(list(own.values()))) | {"values": values_by_seed(own)}
            record |= paired_change(own, {} if condition == BASE else by_seed.get(BASE, {}))
            sources = members[members["condition"].isin([condition, BASE])]["provenance"]
            records.append(record | {"provenance": join_sources(sources)})
    return pd.DataFrame(records)


def seed_tables(seeds: Mapping[int, Evaluations], params: Params, varied: Sequence[str] = SEEDS) -> list[Table]:
    """The table over seeds, which differ in ``varied``; none with fewer than two seeds or without headline metrics."""
    models = display_names(params)
    values = seed_values(seeds, models, params.conditions) if len(seeds) > 1 else pd.DataFrame()
    if values.empty:
        return []
    columns = {
        "Model": lambda row: models[row.model],
        "Split": lambda row: SHORT_SPLIT_TITLES.get(row.split, DASH),
        "Metric": lambda row: METRICS[row.metric].title,
        "Condition": lambda row: row.condition,
        "Seeds": lambda row: str(row.seeds),
        "Value": lambda row: value_text(row._asdict()),
        "Change": lambda row: number_text(row.change, 4, "+"),
        "95% interval": lambda row: interval_text(row.change_low, row.change_high),
    }
    title, shared = SEED_TITLES[varied[0]], [key for key in SEEDS if key not in varied]
    differing = f"Differing: {', '.join(varied)}." + (f" The same: {', '.join(shared)}." if shared else "")
    note = (
        f"{title}s {', '.join(map(str, sorted(seeds)))}. Mean ± standard deviation between seeds (smallest to largest);"
        " undefined as soon as one seed's value is. The table's file has the value of every seed. Change: mean of the "
        "differences from base under the same seed, with Student's t interval, which takes them as normal; with two "
        f"seeds it is 9 standard deviations to each side. {differing}"
    )
    table = records_table(
        "seed_values", f"Headline metrics over {title.lower()}s", value_records(values), columns, 4, note
    )
    return [] if table is None else [table]
