"""Tables of laws of one's own: each law by itself, and paired tests between conditions."""

import itertools
import math
from collections.abc import Mapping, Sequence

import pandas as pd

from pipeline.axes.laws import SPLIT_TITLES as LAW_SPLITS
from pipeline.axes.laws.law_metrics import LAW_TESTED, LAW_VALID_RATE, REJECTED_SHARE
from pipeline.axes.registry import METRICS
from pipeline.axes.structured.tables import perfect_sampler_scores, test_columns
from pipeline.config.retention import TestsConfig
from pipeline.core.prompts.own_laws import SPLITS
from pipeline.core.statistics.condition_tests import compare_conditions, method_pairs
from pipeline.record.provenance import join_sources
from pipeline.report.evaluations import Evaluations, rows_of
from pipeline.report.table import DASH, Table, interval_text, number_text, records_table

TITLES = [
    "Law",
    "Requests",
    "Model",
    "Condition",
    "Answers",
    "Valid",
    "Distance",
    "Value",
    "Perfect",
    "× perfect",
    "Exact",
    "Rejected",
]
NUMBERS = ("value", "ci_low", "ci_high", "floor")
LAW_COLUMNS = ("prompt_id", "split", "family", "numeric")
EXACT_OF = {
    "law_total_variation": "law_exact_total_variation",
    "law_wasserstein_1_normalised": "law_exact_wasserstein_1_normalised",
}
"""The exact figure beside each distance of samples."""
COMPARED = {**LAW_TESTED, "law_exact_total_variation": "family_mean"}
"""What is tested: the exact total variation is defined without valid answers, too."""


def laws_table(metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]) -> Table | None:
    """A row for every law, split, model and condition; None without an evaluation."""
    rows = rows_of(metrics, axis="laws")
    rows = rows[rows["family"] != ""]
    found = {(r.family, r.split, r.model, r.condition, r.metric): r for r in rows.itertuples()}
    texts, records = [], []
    for key in itertools.product(dict.fromkeys(rows["family"]), SPLITS, models, conditions):
        metric = next((name for name in LAW_TESTED if (*key, name) in found), None)
        if metric is None:
            continue
        law, split, model, condition = key
        own, valid = found[*key, metric], found[*key, LAW_VALID_RATE]
        exact, rejected = (found.get((*key, name)) for name in (EXACT_OF[metric], REJECTED_SHARE))
        exact_value = math.nan if exact is None else exact.value
        interval = interval_text(own.ci_low, own.ci_high, 3, sign="")
        texts.append(
            [
                law,
                LAW_SPLITS[split],
                models[model],
                condition,
                f"{valid.n}",
                number_text(valid.value, 3),
                METRICS[metric].column_title,
                f"{own.value:.3f} {interval}" if math.isfinite(own.value) else "undefined",
                number_text(own.floor, 3),
                number_text(own.value / own.floor if own.floor else math.nan, 1),
                number_text(exact_value, 3),
                f"{rejected.value:.0%} of {rejected.n}" if rejected is not None and rejected.n else DASH,
            ]
        )
        record = {"law": law, "split": split, "model": model, "condition": condition, "metric": metric}
        numbers = {"valid_rate": valid.value, **{name: getattr(own, name) for name in NUMBERS}, "exact": exact_value}
        records.append({**record, **numbers, "provenance": join_sources([own.provenance])})
    if not texts:
        return None
    return Table(
        "laws",
        "Laws of one's own: answers against each law",
        TITLES,
        texts,
        4,
        pd.DataFrame(records),
        "TV: total variation of the valid answers' classes; W1: of valid numbers, in the target's own Q95 - Q05. Each "
        "is a mean over the law's requests, with the 95% interval for other requests and answers. Perfect: the same of "
        "draws from the law, as many as are valid. Exact: of the model's probabilities, without sampling; TV counts "
        "all other answers, W1 is given one of the law's strings. Rejected: requests whose answers a chi-square test "
        "shows not to follow the law (Holm, 0.05). Held-out templates and values were not trained on.",
    )


def law_tests_table(
    evaluations: Evaluations,
    models: Mapping[str, str],
    conditions: Sequence[str],
    seed: int,
    settings: TestsConfig,
    replicates: int,
) -> Table | None:
    """Paired tests of ``method_pairs`` on COMPARED, each over all laws that have it; None without pairs.

    The units that are resampled and swapped are requests: the laws are those that the user asks about.
    """
    table = evaluations.stacked("laws", "per_prompt", LAW_COLUMNS, list(models), conditions, optional=tuple(COMPARED))
    # In the order of SPLITS: what was not trained on first.
    table = table.sort_values("split", key=lambda split: split.map(SPLITS.index), kind="stable")
    floors = perfect_sampler_scores(evaluations.metrics, "laws", COMPARED)
    parts = []
    for metric, statistic in COMPARED.items():
        of_kind = table
        if metric in LAW_TESTED:
            of_kind = table[table["numeric"].astype(bool) == (metric == "law_wasserstein_1_normalised")]
        found = compare_conditions(
            of_kind.assign(family=of_kind["prompt_id"]),
            method_pairs(conditions),
            floors,
            {metric: settings.wasserstein_margin},
            seed,
            settings.significance,
            replicates,
            {metric: statistic},
        )
        if len(found):
            parts.append(found)
    if not parts:
        return None
    tests = pd.concat(parts, ignore_index=True)
    return records_table(
        "laws_tests",
        "Paired tests between conditions, laws of one's own",
        tests.assign(axis="laws"),
        test_columns(models) | {"Split": lambda row: LAW_SPLITS[row.split]},
        4,
        "Difference: mean over requests, first condition minus second; below 0 the first is closer to its laws. "
        "Requests are resampled and swapped, so families are requests here and both p are the same question; with "
        "fewer than 6 of them no p is below 0.05. Undefined: a condition without valid answers to some requests. The "
        "rest is as in the tests of structured sampling.",
    )
