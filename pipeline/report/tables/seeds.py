"""Tables over training seeds: headline metrics, intervals, and differences between conditions."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from pipeline.config.evaluation import BASELINES
from pipeline.config.params import CONDITIONS, METHODS, Params
from pipeline.metrics.registry import METRICS, SHORT_SPLIT_TITLES
from pipeline.report.ablations.tables import value_text
from pipeline.report.evaluations import Evaluations
from pipeline.report.tables.seed_records import difference_records, interval_records, seed_values, value_records
from pipeline.report.tables.table import DASH, MISSING, ListTable

TITLE = "Training seeds"
EXPLANATION = (
    "The same settings trained, sampled and evaluated anew with other seeds: how far a number of one run can be "
    "relied on. All other tables and figures are of one seed."
)
BASE_NOTE = (
    f"{' and '.join(METHODS)} are trained anew with each seed. base and what asks or decodes it in another way are "
    "one checkpoint: they differ between seeds by sampling alone, and not at all where nothing is sampled."
)


def seed_tables(seeds: Mapping[int, Evaluations], config: Params) -> list[ListTable]:
    """The tables over training seeds; none with fewer than two seeds or without a headline metric.

    Args:
        seeds: Evaluations of the same settings by training seed.
        config: The parameters, for display names, the bootstrap's size and its seed.

    Raises:
        ArtifactError: Two seeds answered different prompts.
    """
    models = {name: model.display_name for name, model in config.models.items()}
    values = seed_values(seeds, models) if len(seeds) > 1 else pd.DataFrame()
    if values.empty:
        return []
    intervals = interval_records(values, seeds, models, config.seed, config.evaluate.bootstrap_replicates)
    differences = difference_records(values, models)
    listed = ", ".join(map(str, sorted(seeds)))
    tables = [_value_table(value_records(values, models), listed)]
    tables += [_interval_table(intervals)] if len(intervals) else []
    tables += [_difference_table(differences)] if len(differences) else []
    return tables


def _metric_title(metric: str) -> str:
    found = METRICS[metric]
    return found.title if found.direction == "neither" else f"{found.title} ({found.direction} is better)"


def _split_title(split: str) -> str:
    return SHORT_SPLIT_TITLES.get(split, DASH)


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


def _value_table(records: pd.DataFrame, listed: str) -> ListTable:
    conditions = [name for name in (*CONDITIONS, *BASELINES) if (records["condition"] == name).any()]
    rows = [
        [
            members["display_name"].iloc[0],
            _split_title(split),
            _metric_title(metric),
            str(members["seeds"].max()),
            *_cells(members, conditions),
        ]
        for (_, _, split, metric), members in records.groupby(["model", "axis", "split", "metric"], sort=False)
    ]
    note = (
        f"Training seeds {listed}. Mean ± standard deviation between seeds (smallest to largest); undefined as soon "
        f"as one seed's value is. {BASE_NOTE} The table's file has the value of every seed."
    )
    header = ["Model", "Split", "Metric", "Seeds", *conditions]
    return ListTable("seed_values", "Headline metrics over training seeds", header, rows, 4, records, note)


def _interval_table(records: pd.DataFrame) -> ListTable:
    rows = [
        [
            row.display_name,
            _split_title(row.split),
            _metric_title(row.metric),
            row.condition,
            str(row.seeds),
            str(row.prompts),
            f"{row.value:.4f}" if math.isfinite(row.value) else f"{DASH} ({row.undefined} undefined)",
            _interval(row, ""),
        ]
        for row in records.itertuples()
    ]
    header = ["Model", "Split", "Metric", "Condition", "Seeds", "Prompts", "All seeds together", "95% interval"]
    note = (
        "All seeds together: a prompt's value is its mean over seeds; then mean within family, median across families "
        "(the mean of the seeds' own medians is another number). Undefined: prompts without a value in one of the "
        "seeds; the number is undefined where a family has no other prompt. Interval: 95%, training seeds, families "
        "and prompts resampled, seeds crossed with prompts (Owen 2007); with two or three seeds their part of it is "
        f"rough, and too small. {BASE_NOTE}"
    )
    return ListTable(
        "seed_intervals", "Structured sampling over training seeds, with intervals", header, rows, 4, records, note
    )


def _difference_table(records: pd.DataFrame) -> ListTable:
    rows = [
        [
            row.display_name,
            _split_title(row.split),
            _metric_title(row.metric),
            f"{row.condition} − {row.against}",
            str(row.seeds),
            _difference(row),
            f"{row.low:+.4f} to {row.high:+.4f}" if row.status == "ok" else DASH,
            _interval(row, "+"),
        ]
        for row in records.itertuples()
    ]
    header = ["Model", "Split", "Metric", "Conditions", "Seeds", "Difference", "Range", "95% interval"]
    note = (
        "Difference: of the two conditions under the same seed, mean over seeds ± standard deviation between them. "
        "Range: smallest to largest. Interval: 95%, of the mean over training seeds, Student's t of the differences "
        "with one degree of freedom less than seeds; it holds for these prompts and takes the differences as normal. "
        f"With one seed there is none; with two it is 9 standard deviations to each side. {BASE_NOTE}"
    )
    return ListTable(
        "seed_differences", "Differences between conditions over training seeds", header, rows, 4, records, note
    )


def _difference(row: Any) -> str:
    if row.status != "ok":
        return f"{DASH} (undefined in {row.undefined} of {row.seeds} seeds)"
    return f"{row.difference:+.4f}" + (f" ± {row.deviation:.4f}" if math.isfinite(row.deviation) else "")


def _interval(row: Any, sign: str) -> str:
    if not math.isfinite(row.ci_low):
        return DASH
    return f"[{row.ci_low:{sign}.4f}, {row.ci_high:{sign}.4f}]"
