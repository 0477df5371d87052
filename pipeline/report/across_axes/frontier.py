"""Calibration against what it costs: the table of all methods, the points of the figures, and the method to choose."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from pipeline.axes.registry import METRICS, SHORT_SPLIT_TITLES, SPLITS
from pipeline.axes.structured.tables import RATIO_TITLE, VALID_RATE, WASSERSTEIN
from pipeline.config.methods import MethodConfig
from pipeline.config.params import BASE
from pipeline.core.statistics.frontier import Choice, choose_method, dominated_by
from pipeline.record.provenance import join_sources
from pipeline.report.evaluations import methods_of, rows_of
from pipeline.report.tables.retention import difference_from_base, paloma_measures
from pipeline.report.tables.table import (
    DASH,
    Measure,
    Table,
    build_table,
    existing_measures,
    measure_of,
    with_note,
)

FRONTIER_TABLE = "frontier"
ANCHOR_KL = measure_of("anchor_kl_nats", bold=False)
CALIBRATION_TITLE = f"W1, {RATIO_TITLE}, mean of splits"
CHOSEN = "to choose"


def kept_measures(metrics: pd.DataFrame) -> list[Measure]:
    """What is kept of the base checkpoint, then what carries over: those that were evaluated."""
    bits_per_byte = difference_from_base(paloma_measures(metrics)[1].metric)
    names = (
        ANCHOR_KL.metric,
        bits_per_byte,
        "accuracy_difference",
        "mcq_parse_rate",
        "unique_fraction",
        "top_p_support_size",
    )
    return existing_measures(metrics, [measure_of(name, bold=False) for name in names])


def cost_measures(metrics: pd.DataFrame) -> list[Measure]:
    """By which methods are chosen, the first that all candidates have: divergence from base, else bits per byte."""
    costs = (ANCHOR_KL.metric, difference_from_base(paloma_measures(metrics)[1].metric))
    return [measure for measure in kept_measures(metrics) if measure.metric in costs]


def with_base(metrics: pd.DataFrame) -> pd.DataFrame:
    """The metrics with base's differences from itself, which are 0 and which no evaluation writes."""
    parts = [metrics]
    for metric in ("accuracy", paloma_measures(metrics)[1].metric):
        name = difference_from_base(metric)
        rows = rows_of(metrics, condition=BASE, split="all", family="", metric=metric)
        if len(rows) and (metrics["metric"] == name).any():
            parts.append(rows.assign(metric=name, value=0.0 * rows["value"], ci_low=math.nan, ci_high=math.nan))
    return pd.concat(parts, ignore_index=True) if len(parts) > 1 else metrics


def calibration(metrics: pd.DataFrame) -> pd.DataFrame:
    """W1 in units of a perfect sampler's, mean over the splits, by model and condition.

    The ends of the interval are the means of the splits' ends. That is wider than the interval of the mean, unless
    both splits err together.

    Returns:
        Columns x, x_low, x_high and provenance, indexed by model and condition. Undefined (NaN) where a split that
        another condition of the model was evaluated on is missing or undefined.
    """
    rows = rows_of(metrics, axis="structured", family="", metric=WASSERSTEIN.metric)
    rows = rows[rows["split"].isin(SPLITS["structured"])]
    floors, ends = rows["floor"].where(rows["floor"] > 0), {"x": "value", "x_low": "ci_low", "x_high": "ci_high"}
    ratios = rows.assign(**{name: rows[column] / floors for name, column in ends.items()})
    by_condition = ratios.groupby(["model", "condition"], sort=False)
    found = by_condition[list(ends)].agg(lambda values: values.mean(skipna=False)).astype(float)
    splits = ratios.groupby("model")["split"].nunique()
    complete = by_condition.size() == splits.reindex(found.index.get_level_values("model")).to_numpy()
    found = found.where(complete, math.nan)
    return found.assign(provenance=by_condition["provenance"].first())


def frontier_points(metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]) -> pd.DataFrame:
    """Every condition with its calibration and each quantity of ``kept_measures``, as far as both are defined.

    Returns:
        Columns model, condition, metric, title, x, x_low, x_high (``calibration``), y, y_low, y_high (the quantity),
        n, dominated_by (the condition of the model that is at least as good in both and better in one, "" where
        there is none) and provenance.
    """
    metrics = with_base(metrics)
    places, points = calibration(metrics), []
    for measure in kept_measures(metrics):
        rows = rows_of(metrics, axis=measure.axis, split=measure.split, family="", metric=measure.metric)
        found = {(row.model, row.condition): row for row in rows.itertuples()}
        for model in models:
            names = [name for name in conditions if (model, name) in found and (model, name) in places.index]
            pairs = [(places.loc[(model, name)], found[model, name]) for name in names]
            values = np.array([[place["x"], row.value] for place, row in pairs]).reshape(-1, 2)
            dominators = dominated_by(values, [True, METRICS[measure.metric].direction == "lower"])
            for name, (place, row), dominator in zip(names, pairs, dominators, strict=True):
                if not (math.isfinite(place["x"]) and math.isfinite(row.value)):
                    continue
                labels = {"model": model, "condition": name, "metric": measure.metric, "title": measure.title}
                points.append(
                    {
                        **labels,
                        **place[["x", "x_low", "x_high"]],
                        **{"y": row.value, "y_low": row.ci_low, "y_high": row.ci_high},
                        "n": row.n,
                        "dominated_by": "" if dominator is None else names[dominator],
                        "provenance": join_sources([place["provenance"], row.provenance]),
                    }
                )
    return pd.DataFrame(points) if points else pd.DataFrame(columns=["model", "condition", "metric", "dominated_by"])


def scale_families(methods: Mapping[str, MethodConfig]) -> dict[str, list[str]]:
    """Base, scaled versions of an adapter by their scale, and the adapter, by the name of each that is trained.

    A scaled version is merged from one method alone; one of a scale above 1 stands behind the adapter itself.
    """
    found = {}
    for trained in (name for name, method in methods.items() if method.merge is None):
        scales = {BASE: 0.0, trained: 1.0} | {
            name: method.merge[trained]
            for name, method in methods.items()
            if method.merge is not None and set(method.merge) == {trained}
        }
        found[trained] = sorted(scales, key=scales.__getitem__)
    return found


def chosen_methods(
    metrics: pd.DataFrame,
    models: Mapping[str, str],
    conditions: Sequence[str],
    tests: pd.DataFrame | None,
    margin: float,
) -> dict[str, tuple[Choice, Measure | None]]:
    """The method to choose for each model with W1 of a method, and the cost that it was chosen by.

    ``tests`` are paired tests of structured sampling, columns split, metric, model, condition, against and verdict;
    ``margin`` is the smallest difference of W1 that matters.
    """
    methods, found = methods_of(conditions), {}
    distances = rows_of(metrics, axis="structured", family="", metric=WASSERSTEIN.metric)
    costs = {measure: _values(metrics, measure) for measure in cost_measures(metrics)}
    for model in models:
        own = distances[(distances["model"] == model) & distances["condition"].isin(methods)]
        if own.empty:
            continue
        by_split = {
            split: {
                row.condition: (row.value, row.ci_low, row.ci_high)
                for row in sorted(rows_of(own, split=split).itertuples(), key=lambda row: methods.index(row.condition))
            }
            for split in SPLITS["structured"]
            if (own["split"] == split).any()
        }
        verdicts = {split: _verdicts(tests, model, split, methods) for split in by_split}
        for measure in (*costs, None):
            prices = {name: costs[measure].get((model, name), math.nan) for name in methods} if measure else {}
            choice = choose_method(by_split, verdicts, prices, margin)
            if all(math.isfinite(prices.get(name, math.nan)) for name in choice.candidates) or measure is None:
                found[model] = (choice, measure)
                break
    return found


def _values(metrics: pd.DataFrame, measure: Measure) -> dict[tuple[str, str], float]:
    rows = rows_of(metrics, axis=measure.axis, split=measure.split, family="", metric=measure.metric)
    return rows.set_index(["model", "condition"])["value"].to_dict()


def _verdicts(tests: pd.DataFrame | None, model: str, split: str, methods: Sequence[str]) -> dict[tuple[str, str], str]:
    """What tests of W1 say of pairs of methods, by the pair."""
    if tests is None:
        return {}
    rows = rows_of(tests, model=model, split=split, metric=WASSERSTEIN.metric)
    rows = rows[rows["condition"].isin(methods) & rows["against"].isin(methods)]
    return rows.set_index(["condition", "against"])["verdict"].to_dict()


def frontier_table(
    metrics: pd.DataFrame,
    models: Mapping[str, str],
    conditions: Sequence[str],
    choices: Mapping[str, tuple[Choice, Measure | None]],
) -> Table | None:
    """Calibration, what is kept and what carries over, a row per model and condition; None without W1."""
    metrics = with_base(metrics)
    wasserstein = [
        replace(WASSERSTEIN, split=split, title=f"{title}, {SHORT_SPLIT_TITLES[split]}", field=field, decimals=decimals)
        for split in reversed(SPLITS["structured"])
        for title, field, decimals in (("W1", "value", 3), (RATIO_TITLE, "ratio", 1))
    ]
    measures = existing_measures(metrics, [*wasserstein, replace(VALID_RATE, split="ood", title="Valid rate, OOD")])
    if not measures:
        return None
    # The last column, whether a condition is dominated, has to fit on the page beside all of these.
    kept = [replace(measure, decimals=min(3, measure.decimals)) for measure in kept_measures(metrics)]
    measures = [replace(measure, lower_is_better=None) for measure in measures] + kept
    structured = rows_of(metrics, family="", axis="structured")
    evaluated = set(structured.loc[structured["metric"].isin([measure.metric for measure in measures]), "model"])
    present = {name: title for name, title in models.items() if name in evaluated}
    table = build_table(
        FRONTIER_TABLE,
        "Calibration, and what it costs",
        metrics,
        present,
        measures,
        conditions,
        conditions_are_rows=True,
    )
    standings = _standings(frontier_points(metrics, models, conditions), present, conditions, choices)
    measured = [measure.title[0].lower() + measure.title[1:] for _, measure in choices.values() if measure is not None]
    plane = f"in calibration (mean of both splits' {RATIO_TITLE}) and {' or '.join(dict.fromkeys(measured))}"
    return with_note(
        replace(table, row_texts=standings, row_texts_title="Frontier"),
        f"{RATIO_TITLE}: W1 over what a perfect sampler of as many answers scores (in brackets). Differences: the "
        "method less base, paired; base's own are 0. Divergence: KL per token from base's law on held-out "
        "instructions. Dominated: another condition is no worse "
        f"{plane if measured else 'where both were measured'}, and better in one, by these estimates, whatever their "
        f"intervals. {CHOSEN.capitalize()}: by the rule of the page's second answer. Brackets: 95% intervals of each "
        f"condition alone. {DASH}: undefined.",
    )


def _standings(
    points: pd.DataFrame,
    models: Mapping[str, str],
    conditions: Sequence[str],
    choices: Mapping[str, tuple[Choice, Measure | None]],
) -> dict[tuple[str, str], str]:
    """What the last column says of each model and condition."""
    found = {}
    for model in models:
        choice, measure = choices.get(model, (None, None))
        own = rows_of(points, model=model, metric=measure.metric if measure else "")
        dominators = dict(zip(own["condition"], own["dominated_by"], strict=True))
        for condition in conditions:
            words = [CHOSEN] if choice is not None and choice.method == condition else []
            words += [f"dominated by {dominators[condition]}"] if dominators.get(condition) else []
            found[model, condition] = "; ".join(words)
    return found
