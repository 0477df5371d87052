"""What a method costs more than a mixture of base and scaled versions of a reference at the same calibration."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pipeline.axes.paloma.perplexity import resampled_sums
from pipeline.axes.registry import METRICS, SPLITS
from pipeline.axes.retention.accuracy import ALL, mean_columns
from pipeline.axes.structured.tables import RATIO_TITLE, WASSERSTEIN, per_prompt_metrics
from pipeline.config.params import BASE, Params
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.frontier import mixture_cost
from pipeline.core.statistics.intervals import paired_difference_draws, paired_mean_draws, percentile_interval
from pipeline.record.provenance import join_sources
from pipeline.report.across_axes.frontier import frontier_points, scale_families
from pipeline.report.across_axes.records import difference, interval, metric_title, records_table
from pipeline.report.across_axes.transfer_tests import letter_counts
from pipeline.report.evaluations import Evaluations, methods_of, rows_of
from pipeline.report.tables.table import ListTable

COSTS_TABLE = "frontier_costs"
REFERENCE = "soft"
"""Whose scaled versions are the reference, where it is trained; else the first method that is."""
Draws = Mapping[str, np.ndarray]
"""float64[R] by condition: a figure on resamples that all conditions of a model share."""


@dataclass(frozen=True)
class _Source:
    """What there is of one model, and how often it is resampled."""

    params: Params
    evaluations: Evaluations
    metrics: pd.DataFrame
    model: str

    @property
    def replicates(self) -> int:
        return self.params.evaluate.bootstrap_replicates

    def stream(self, *names: str) -> np.random.Generator:
        return random_stream(self.params.seed, "frontier", self.model, *names)

    def stacked(self, axis: str, columns: Sequence[str]) -> pd.DataFrame:
        return self.evaluations.stacked(axis, "per_prompt", columns, [self.model], self.params.conditions)


def reference_family(params: Params) -> list[str]:
    """Base, the scaled versions of the reference method, and itself."""
    families = scale_families(params.methods)
    return families.get(REFERENCE) or next(iter(families.values()))


def equal_calibration(
    params: Params, evaluations: Evaluations, metrics: pd.DataFrame, models: Mapping[str, str]
) -> pd.DataFrame:
    """Every method's cost less that of the cheapest mixture of the reference that is as well calibrated.

    Returns:
        Columns axis, split, metric, model, condition, reference (its members, separated by commas), calibration
        (W1 over a perfect sampler's, mean of both splits), reached (whether a mixture is as well calibrated), value,
        reference_value, difference, ci_low, ci_high, verdict and provenance; empty without a method beside the
        reference.
    """
    family, rows = reference_family(params), []
    points = frontier_points(metrics, models, params.conditions)
    points = points[points["metric"].isin([name for name, metric in METRICS.items() if metric.axis in COSTS])]
    for model, of_model in points.groupby("model", sort=False):
        source = _Source(params, evaluations, metrics, str(model))
        calibrations = calibration_draws(source)
        for metric, own in of_model.groupby("metric", sort=False):
            members = own.set_index("condition")
            known = [name for name in family if name in members.index]
            others = [name for name in methods_of(params.conditions) if name in members.index and name not in family]
            if known and others:
                costs = dict(COSTS[METRICS[str(metric)].axis](source, str(metric)))
                rows += [_row(members, known, condition, calibrations, costs) for condition in others]
    return pd.DataFrame(rows)


def _row(
    members: pd.DataFrame, known: Sequence[str], condition: str, calibrations: Draws, costs: Draws
) -> dict[str, Any]:
    metric = str(members["metric"].iloc[0])
    sign = 1.0 if METRICS[metric].direction == "lower" else -1.0
    x, y = (members.loc[[*known, condition], column].to_numpy(np.float64) for column in ("x", "y"))
    reference = sign * float(mixture_cost(x[:-1], sign * y[:-1], x[-1]))
    low = high = math.nan
    if {*known, condition} <= calibrations.keys() & costs.keys():
        xs, ys = (np.stack([draws[name] for name in (*known, condition)]) for draws in (calibrations, costs))
        low, high = percentile_interval(ys[-1] - sign * mixture_cost(xs[:-1], sign * ys[:-1], xs[-1]))
    ends = sorted((sign * low, sign * high))
    verdict = "costs less" if ends[1] < 0 else "costs more" if ends[0] > 0 else "cannot tell"
    return {
        "axis": METRICS[metric].axis,
        "split": SPLITS[METRICS[metric].axis][0],
        "metric": metric,
        "model": members["model"].iloc[0],
        "condition": condition,
        "reference": ", ".join(known),
        "calibration": x[-1],
        "reached": bool(x[:-1].min() <= x[-1]),
        "value": y[-1],
        "reference_value": reference,
        "difference": y[-1] - reference,
        "ci_low": low,
        "ci_high": high,
        "verdict": verdict,
        "provenance": join_sources(members.loc[[condition, *known], "provenance"]),
    }


def calibration_draws(source: _Source) -> Draws:
    """W1 over a perfect sampler's, mean of both splits, on resamples of families and prompts."""
    table = per_prompt_metrics(source.evaluations, {source.model: source.model}, source.params.conditions)
    rows = rows_of(source.metrics, axis="structured", family="", metric=WASSERSTEIN.metric, model=source.model)
    floors = dict(zip(zip(rows["split"], rows["condition"], strict=True), rows["floor"], strict=True))
    splits = [split for split in SPLITS["structured"] if (rows["split"] == split).any()]
    drawn: dict[str, list[np.ndarray]] = {}
    for split in (name for name in splits if (table["split"] == name).any()):
        members = rows_of(table, split=split)
        values = members.pivot(index="prompt_id", columns="condition", values=WASSERSTEIN.metric)
        families = members.drop_duplicates("prompt_id").set_index("prompt_id")["family"].loc[values.index].to_numpy()
        side = values.to_numpy(np.float64).T
        rng = source.stream("structured", split)
        draws = paired_difference_draws(side, np.zeros_like(side), families, replicates=source.replicates, rng=rng)
        for condition, own in zip(values.columns, draws, strict=True):
            drawn.setdefault(condition, []).append(own / floors.get((split, condition), math.nan))
    return {name: np.mean(parts, axis=0) for name, parts in drawn.items() if len(parts) == len(splits)}


def _divergences(source: _Source, metric: str) -> Iterator[tuple[str, np.ndarray]]:
    columns = ("prompt_id", "direction", "num_tokens", "divergence_nats")
    table = rows_of(source.stacked("anchors", columns), direction="forward")
    if table.empty:
        return
    values = table.pivot(index="prompt_id", columns="condition", values=["divergence_nats", "num_tokens"])
    sums = resampled_sums(values.to_numpy(np.float64), source.replicates, source.stream(metric))
    nats, tokens = np.split(sums, 2, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        yield from zip(values["num_tokens"].columns, (nats / tokens).T, strict=True)


def _items(source: _Source, metric: str) -> Iterator[tuple[str, np.ndarray]]:
    table = source.stacked("retention", ("split", "item", "value", "base_value"))
    # Base's own tables have no base to compare with.
    table = table[table["condition"] != BASE].assign(difference=lambda rows: rows["value"] - rows["base_value"])
    rng, conditions, drawn = source.stream(metric), source.params.conditions, []
    for task in mean_columns(list(dict.fromkeys(table["split"]))):
        values = rows_of(table, split=task).pivot(index="item", columns="condition", values="difference")
        side = values.assign(**{BASE: 0.0}).reindex(columns=conditions).to_numpy(np.float64).T
        drawn.append(paired_mean_draws(side, np.zeros_like(side), replicates=source.replicates, rng=rng))
    if drawn:
        yield from zip(conditions, np.mean(drawn, axis=0), strict=True)


def _questions(source: _Source, metric: str) -> Iterator[tuple[str, np.ndarray]]:
    counts = letter_counts(source.evaluations, [source.model], source.params.conditions)
    for (_, condition), own in counts.items():
        asked = int(own["num_samples"])
        drawn = source.stream(metric, condition).binomial(asked, own["num_parsed"] / asked, source.replicates)
        yield condition, drawn / asked


def _documents(source: _Source, metric: str) -> Iterator[tuple[str, np.ndarray]]:
    rows = rows_of(source.metrics, axis="paloma", split=ALL, family="", metric=metric, model=source.model)
    for row in rows.itertuples():
        yield row.condition, np.full(source.replicates, row.value)
    yield BASE, np.zeros(source.replicates)


COSTS = {"anchors": _divergences, "paloma": _documents, "retention": _items, "mcq": _questions}
"""What draws an axis's costs on resamples that all conditions share."""


def equal_calibration_table(costs: pd.DataFrame, models: Mapping[str, str]) -> ListTable | None:
    """``equal_calibration`` as a table; None without any."""
    if costs.empty:
        return None

    def of_metric(column: str) -> Callable[[Any], str]:
        return lambda row: f"{getattr(row, column):.{METRICS[row.metric].decimals}f}"

    columns = {
        "Cost": metric_title,
        "Model": lambda row: models[row.model],
        "Method": lambda row: row.condition,
        f"W1 {RATIO_TITLE}": lambda row: f"{row.calibration:.1f}{'' if row.reached else ' (beyond)'}",
        "Method's": of_metric("value"),
        "Reference's": of_metric("reference_value"),
        "Difference": difference,
        "95% interval": interval,
        "At equal calibration": lambda row: row.verdict,
    }
    return records_table(
        COSTS_TABLE,
        "What methods cost at equal calibration",
        costs,
        columns,
        3,
        f"Reference: mixtures of {' and of '.join(dict.fromkeys(costs['reference']))}, each of which answers a share "
        "of the requests; of those that are, on average, at least as well calibrated as the method, the cheapest. "
        "It takes no training, so a method is worth its training where it costs less. "
        f"W1 {RATIO_TITLE}: over a perfect sampler's, mean of both splits; (beyond): better than all of the reference, "
        "whose best calibrated stands in, so that the method is charged for being better. Difference: method minus "
        "reference. Interval: 95% bootstrap of it, the same families and prompts, and the same instructions or items, "
        "drawn for all conditions; written questions are redrawn by condition; PALOMA's documents are taken as they "
        "are. Costs less or more: the whole interval on one side of 0, not adjusted for the number of methods.",
    )
