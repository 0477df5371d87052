"""One test over all models of each question, in place of counting verdicts."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pipeline.axes.mcq.multiple_choice import PARSERS, total_variation
from pipeline.axes.registry import METRICS, SHORT_SPLIT_TITLES
from pipeline.axes.retention.accuracy import ALL, mean_columns
from pipeline.axes.structured.tables import margins_of, per_prompt_metrics
from pipeline.config.params import BASE, Params
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.condition_tests import TESTED, method_pairs
from pipeline.core.statistics.intervals import over_families, paired_difference_draws, paired_mean_draws
from pipeline.core.statistics.model_tests import over_models
from pipeline.record.provenance import join_sources
from pipeline.report.across_axes.records import (
    VERDICT_COLUMNS,
    difference,
    interval,
    metric_title,
    pair,
    records_table,
    with_verdicts,
)
from pipeline.report.across_axes.transfer_tests import (
    letter_counts,
    letters_of,
    total_variation_difference_draws,
    values_by_prompt,
)
from pipeline.report.evaluations import Evaluations, methods_of, rows_of
from pipeline.report.tables.retention_lists import one_variant
from pipeline.report.tables.table import ListTable

MODELS_TABLE = "model_tests"
Names = tuple[str, str, str, str, str]
"""Axis, split, metric, condition, and what it is compared with."""
Compared = tuple[Names, np.ndarray, np.ndarray]
"""One question to all models: differences float64[M] and draws float64[M, R] of them on common resamples."""


@dataclass(frozen=True)
class _Source:
    """Where values come from, what is compared, and how often they are resampled."""

    evaluations: Evaluations
    models: Mapping[str, str]
    conditions: Sequence[str]
    seed: int
    replicates: int

    def stream(self, *names: str) -> np.random.Generator:
        """The same for all models, so that they see the same resamples."""
        return random_stream(self.seed, "model tests", *names)

    def sides(self, table: pd.DataFrame, own: str, other: str) -> tuple[np.ndarray, np.ndarray] | None:
        """float64[M, P] of the models that have both conditions as columns (model, condition); None without any."""
        both = [name for name in self.models if {(name, own), (name, other)} <= set(table.columns)]
        if not both:
            return None
        first, second = (table[[(name, condition) for name in both]].to_numpy().T for condition in (own, other))
        return first, second


def _structured(source: _Source) -> Iterator[Compared]:
    per_prompt = per_prompt_metrics(source.evaluations, source.models, source.conditions)
    for split, members in per_prompt.groupby("split", sort=False):
        families = members.drop_duplicates("prompt_id").set_index("prompt_id")["family"]
        for metric, statistic in TESTED.items():
            table = members.pivot(index="prompt_id", columns=["model", "condition"], values=metric)
            labels = families.loc[table.index].to_numpy()
            for own, other in method_pairs(source.conditions):
                names = ("structured", str(split), metric, own, other)
                if (sides := source.sides(table, own, other)) is not None:
                    values = np.array([[over_families(row, labels, statistic) for row in side] for side in sides])
                    replicates, rng = source.replicates, source.stream(*names)
                    draws = paired_difference_draws(*sides, labels, replicates=replicates, rng=rng, statistic=statistic)
                    yield names, values[0] - values[1], draws


def _by_prompt(source: _Source, metrics: pd.DataFrame) -> Iterator[Compared]:
    for question, table in values_by_prompt(
        source.evaluations, metrics, list(source.models), source.conditions
    ).items():
        for own, other in method_pairs(source.conditions):
            names = (*question, own, other)
            if (sides := source.sides(table, own, other)) is not None:
                draws = paired_mean_draws(*sides, replicates=source.replicates, rng=source.stream(*names))
                # Of a condition without any value the mean is undefined, and so is the model.
                means = [pd.DataFrame(side.T).mean().to_numpy() for side in sides]
                yield names, means[0] - means[1], draws


def _multiple_choice(source: _Source) -> Iterator[Compared]:
    counts = letter_counts(source.evaluations, list(source.models), source.conditions)
    for own, other in method_pairs(source.conditions):
        both = [name for name in source.models if {(name, own), (name, other)} <= set(counts)]
        for suffix in PARSERS if both else ():
            for metric, compare in (("mcq_parse_rate", _parse_rates), ("mcq_total_variation", _balance)):
                names = ("mcq", "mcq", f"{metric}{suffix}", own, other)
                found = [
                    compare(source, (counts[model, own], counts[model, other]), suffix, (*names, model))
                    for model in both
                ]
                yield names, np.array([value for value, _ in found]), np.array([draws for _, draws in found])


Sides = tuple[pd.Series, pd.Series]
"""``letter_counts`` of a model under two conditions."""


def _parse_rates(source: _Source, sides: Sides, suffix: str, names: Sequence[str]) -> tuple[float, np.ndarray]:
    rng, asked = source.stream(*names), [int(side["num_samples"]) for side in sides]
    rates = [side[f"num_parsed{suffix}"] / n for side, n in zip(sides, asked, strict=True)]
    drawn = [rng.binomial(n, p, source.replicates) / n for n, p in zip(asked, rates, strict=True)]
    return rates[0] - rates[1], drawn[0] - drawn[1]


def _balance(source: _Source, sides: Sides, suffix: str, names: Sequence[str]) -> tuple[float, np.ndarray]:
    own, other = (letters_of(side, suffix) for side in sides)
    draws = np.full(source.replicates, math.nan)
    if min(own.sum(), other.sum()):
        streams = ("model tests", *names)
        draws = total_variation_difference_draws(own, other, source.seed, streams, source.replicates)
    return total_variation(own) - total_variation(other), draws


def _retention(source: _Source) -> Iterator[Compared]:
    columns = ("split", "item", "value", "base_value")
    methods = methods_of(source.conditions)
    items = source.evaluations.stacked("retention", "per_prompt", columns, source.models, methods)
    items = items.assign(difference=items["value"] - items["base_value"])
    for method in methods:
        own = rows_of(items, condition=method)
        if own.empty:
            continue
        means, drawn = [], []
        for task in mean_columns(list(dict.fromkeys(own["split"]))):
            table = rows_of(own, split=task).pivot(index="model", columns="item", values="difference")
            values = table.reindex(list(source.models)).to_numpy(dtype=np.float64)
            rng = source.stream("retention", task, "accuracy", method, BASE)
            means.append(values.mean(axis=1))
            drawn.append(paired_mean_draws(values, np.zeros_like(values), replicates=source.replicates, rng=rng))
        names = ("retention", ALL, "accuracy", method, BASE)
        yield names, np.mean(means, axis=0), np.mean(drawn, axis=0)


def _paloma(source: _Source) -> Iterator[Compared]:
    columns = ("split", "metric", "difference")
    methods = methods_of(source.conditions)
    tests = one_variant(source.evaluations.stacked("paloma", "tests", columns, source.models, methods))
    for (metric, method), members in tests[tests["split"] == ALL].groupby(["metric", "condition"], sort=False):
        differences = members["difference"].to_numpy(np.float64)
        draws = np.repeat(differences[:, None], source.replicates, axis=1)
        yield ("paloma", ALL, str(metric), str(method), BASE), differences, draws


def model_comparisons(
    params: Params, evaluations: Evaluations, metrics: pd.DataFrame, models: Mapping[str, str]
) -> pd.DataFrame:
    """The test over models of every question that at least two models answer.

    Returns:
        Columns axis, split, metric, condition, against, those of ``OverModels``, margin, better (models whose
        difference is to the better side), p_adjusted, verdict and provenance; empty without such a question.
    """
    source = _Source(evaluations, models, params.conditions, params.seed, params.evaluate.bootstrap_replicates)
    margins = {**margins_of(params.tests), "accuracy": params.tests.accuracy_margin}
    rows = []
    for make in (_structured, lambda s: _by_prompt(s, metrics), _multiple_choice, _retention, _paloma):
        for names, differences, draws in make(source):
            found = over_models(differences, draws, source.stream("models", *names))
            if found is None:
                continue
            axis, _, metric, *compared = names
            paths = [
                path for key, path in evaluations.sources.items() if key.axis == axis and key.condition in compared
            ]
            rows.append(
                {
                    **dict(zip(("axis", "split", "metric", "condition", "against"), names, strict=True)),
                    **vars(found),
                    "margin": params.tests.bits_per_byte_margin if axis == "paloma" else margins.get(metric, 0.0),
                    "better": found.higher if METRICS[metric].direction == "higher" else found.lower,
                    "provenance": join_sources(paths),
                }
            )
    return with_verdicts(pd.DataFrame(rows), params.tests.significance)


def model_tests_table(tests: pd.DataFrame, significance: float) -> ListTable | None:
    """``model_comparisons`` as a table; None without any."""
    columns = {
        "Metric": metric_title,
        "Split": lambda row: SHORT_SPLIT_TITLES.get(row.split, row.split),
        "Conditions": pair,
        "Models": lambda row: str(row.models),
        "Mean difference": difference,
        "95% interval": interval,
        "Margin": lambda row: f"{row.margin:g}" if row.margin else "",
        "Better in": lambda row: f"{row.better} of {row.models}",
        **VERDICT_COLUMNS,
    }
    return records_table(
        MODELS_TABLE,
        "Tests over models",
        tests,
        columns,
        3,
        "One question to all models, in place of counting the verdicts of single models. Mean difference: first "
        "condition minus second. Interval: bootstrap over models and over families and prompts (items, generations), "
        "which all models share; PALOMA's documents are taken as they are. p: two-sided sign test of the models' "
        "differences; with fewer than six models it cannot fall to 0.05. Adjusted: over the splits of the same "
        f"question (Holm), level {significance:g}. Better or worse: adjusted p at most the level, and the whole "
        "interval beyond the margin; no relevant difference: the whole interval within it. Models of one maker are "
        "less independent than this takes them to be.",
    )
