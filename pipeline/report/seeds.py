"""Headline metrics over seeds: their spread, and differences between conditions seed by seed."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from scipy import stats

from pipeline.axes import AXES
from pipeline.axes.registry import HEADLINES, METRICS, SHORT_SPLIT_TITLES
from pipeline.config.evaluation import BASELINES
from pipeline.config.params import Params
from pipeline.config.seeds import SEED_TITLES, SEEDS
from pipeline.core.statistics.condition_tests import method_pairs
from pipeline.core.statistics.seed_noise import Spread, spread
from pipeline.record.provenance import join_sources
from pipeline.report.evaluations import Evaluations, display_names
from pipeline.report.table import DASH, MISSING, Table, interval_text, records_table

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


def paired_t_interval(differences: Sequence[float]) -> tuple[float, float]:
    """95% t interval of the mean of differences, one per seed; NaN with fewer than two or where one is undefined."""
    if not math.isfinite(spread(differences).deviation):
        return math.nan, math.nan
    interval = stats.ttest_1samp(differences, 0).confidence_interval()
    return float(interval.low), float(interval.high)


def spread_columns(found: Spread) -> dict[str, Any]:
    """Columns of a record of a metric's spread over seeds, as ``value_text`` reads them."""
    return {"status": "undefined" if found.undefined else "ok", **vars(found)}


def values_by_seed(values: Mapping[int, float]) -> str:
    """The column ``values`` of a record: "seed:value" in full precision, by seed."""
    return " ".join(f"{seed}:{value!r}" for seed, value in values.items())


def value_text(record: Mapping[str, Any], sign: str = "") -> str:
    """Mean, standard deviation and range over seeds; or why there is none."""
    if record["status"] == MISSING:
        return MISSING
    if record["undefined"]:
        return f"{DASH} (undefined in {record['undefined']} of {record['seeds']} seeds)"
    if not math.isfinite(record["deviation"]):
        return f"{record['mean']:{sign}.4f}"
    ends = f"{record['low']:{sign}.4f} to {record['high']:{sign}.4f}"
    return f"{record['mean']:{sign}.4f} ± {record['deviation']:.4f} ({ends})"


def value_records(values: pd.DataFrame) -> pd.DataFrame:
    """Spread of each metric over seeds, one row per model, axis, split, metric and condition."""
    records = []
    for names, rows in values.groupby([*LABELS, "condition"], sort=False):
        by_seed = dict(zip(rows["seed"].tolist(), rows["value"].tolist(), strict=True))
        found = spread_columns(spread(list(by_seed.values()))) | {"values": values_by_seed(by_seed)}
        labels = dict(zip((*LABELS, "condition"), names, strict=True))
        records.append(labels | found | {"provenance": join_sources(rows["provenance"])})
    return pd.DataFrame(records)


def difference_records(values: pd.DataFrame, conditions: Sequence[str]) -> pd.DataFrame:
    """Differences of ``method_pairs`` seed by seed, over the seeds that have both, with the paired t interval."""
    records = []
    for names, rows in values.groupby(LABELS, sort=False):
        for own, other in method_pairs(conditions):
            sides = (rows[rows["condition"] == condition].set_index("seed") for condition in (own, other))
            both = pd.merge(*sides, left_index=True, right_index=True)
            if both.empty:
                continue
            found = (both["value_x"] - both["value_y"]).astype(float)
            low, high = paired_t_interval(found.tolist())
            records.append(
                {
                    **dict(zip(LABELS, names, strict=True)),
                    "condition": own,
                    "against": other,
                    **spread_columns(spread(found.tolist())),
                    "values": values_by_seed(found.to_dict()),
                    "ci_low": low,
                    "ci_high": high,
                    "provenance": join_sources([*both["provenance_x"], *both["provenance_y"]]),
                }
            )
    return pd.DataFrame(records)


def seed_tables(seeds: Mapping[int, Evaluations], params: Params, varied: Sequence[str] = SEEDS) -> list[Table]:
    """The tables over seeds, which differ in ``varied``; none with fewer than two seeds or without headline metrics."""
    models = display_names(params)
    values = seed_values(seeds, models, params.conditions) if len(seeds) > 1 else pd.DataFrame()
    if values.empty:
        return []
    labels = {
        "Model": lambda row: models[row.model],
        "Split": lambda row: SHORT_SPLIT_TITLES.get(row.split, DASH),
        "Metric": lambda row: METRICS[row.metric].title,
    }
    title, shared = SEED_TITLES[varied[0]], [key for key in SEEDS if key not in varied]
    differing = f"Differing: {', '.join(varied)}." + (f" The same: {', '.join(shared)}." if shared else "")
    spread_note = (
        f"{title}s {', '.join(map(str, sorted(seeds)))}. Mean ± standard deviation between seeds (smallest to largest);"
        " undefined as soon as one seed's value is. The table's file has the value of every seed."
    )
    tables = [
        records_table(
            "seed_values",
            f"Headline metrics over {title.lower()}s",
            value_records(values),
            {
                **labels,
                "Condition": lambda row: row.condition,
                "Seeds": lambda row: str(row.seeds),
                "Value": lambda row: value_text(row._asdict()),
            },
            4,
            f"{spread_note} {differing}",
        ),
        records_table(
            "seed_differences",
            f"Differences between conditions over {title.lower()}s",
            difference_records(values, params.conditions),
            {
                **labels,
                "Conditions": lambda row: f"{row.condition} − {row.against}",
                "Seeds": lambda row: str(row.seeds),
                "Difference": lambda row: value_text(row._asdict(), "+"),
                "95% interval": lambda row: interval_text(row.ci_low, row.ci_high),
            },
            4,
            f"Difference: of the two conditions under the same seed. {spread_note} Interval: of the mean, Student's t "
            "of the differences; it holds for these prompts and takes the differences as normal; with two seeds it is "
            f"9 standard deviations to each side. {differing}",
        ),
    ]
    return [table for table in tables if table is not None]
