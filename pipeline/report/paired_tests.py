"""Paired tests between conditions of a model on one axis, by the units of ``UNITS``: prompt by prompt, tests of numbers
would reject far too often where families differ."""

from collections.abc import Mapping, Sequence
from itertools import product

import pandas as pd

from pipeline.axes.registry import METRICS, SHORT_SPLIT_TITLES
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.condition_tests import QUESTION, comparison_verdict, holm
from pipeline.core.statistics.sign_flips import sign_flip_effect
from pipeline.report.evaluations import ReportContext, rows_of
from pipeline.report.table import Table, interval_text, number_text, probability_text, records_table

NOTE = (
    "Difference: mean over the pairs, first condition minus second. p: the signs of the differences are flipped; with "
    "n pairs it is at least 2 / 2^n. Interval: 95%, the inversion of that test (p is at most .05 where it leaves out "
    "0), without adjustment. Adjusted: over the splits of the same question (Holm), level {significance:g}. Better or "
    "worse: adjusted p at most the level, and the whole interval beyond the margin; no relevant difference: the whole "
    "interval within it; cannot tell: neither, or no more than the margin to lose. Perfect samplers: the difference of "
    "perfect samplers of these sizes, by which the margin is widened. The tests are of these trained models, not of "
    "the methods over training seeds."
)


def paired_tests(
    context: ReportContext,
    axis: str,
    splits: Sequence[str],
    margins: Mapping[str, float],
    pairs: Sequence[tuple[str, str]],
) -> pd.DataFrame:
    """The tests of pairs of conditions on metrics, which have margins; a unit without a value makes all undefined."""
    evaluations, significance, records = context.evaluations, context.params.tests.significance, []
    conditions = dict.fromkeys(name for pair in pairs for name in pair)
    for split, metric, model in product(splits, margins, context.names):
        labels, better = {"split": split, "metric": metric, "model": model}, METRICS[metric].direction
        read = {name: evaluations.by_unit(axis, split, metric, model, name) for name in conditions}
        units = {name: values for name, values in read.items() if values is not None}
        rows = rows_of(evaluations.metrics, axis=axis, **labels, family="").set_index("condition")
        for own, other in (pair for pair in pairs if set(pair) <= set(units)):
            differences = units[own] - units[other]
            undefined = int(differences.isna().sum())
            rng = random_stream(context.params.seed, "condition tests", model, split, own, other, metric)
            effect = sign_flip_effect(differences.to_numpy()[: 0 if undefined else None], rng)
            record = {**labels, "condition": own, "against": other, "pairs": len(differences)}
            record |= {"undefined": undefined, "difference": effect.estimate, "ci_low": effect.ci_low}
            record |= {"ci_high": effect.ci_high, "margin": margins[metric], "p": effect.p}
            record |= {"floor_difference": float(rows["floor"][own] - rows["floor"][other])}
            record |= {"nothing_to_lose": better == "higher" and units[other].mean() <= margins[metric]}
            records.append(record)
    table = pd.DataFrame(records)
    if records:
        table["p_adjusted"] = table.groupby([*QUESTION], sort=False)["p"].transform(holm)
        table["verdict"] = [
            "cannot tell"
            if row.nothing_to_lose
            else comparison_verdict(
                *((row.ci_low, row.ci_high), row.p_adjusted, significance, row.margin, row.floor_difference),
                METRICS[row.metric].direction,
            )
            for row in table.itertuples()
        ]
    return table


def paired_tests_table(name: str, caption: str, context: ReportContext, axis: str, *asked: object) -> Table | None:
    """``paired_tests`` as a table; None without any."""
    columns = {
        "Split": lambda row: SHORT_SPLIT_TITLES.get(row.split, row.split),
        "Metric": lambda row: METRICS[row.metric].title,
        "Model": lambda row: context.names[row.model],
        "Conditions": lambda row: f"{row.condition} − {row.against}",
        "Pairs": lambda row: str(row.pairs),
        "Difference": lambda row: number_text(row.difference, sign="+"),
        "95% interval": lambda row: interval_text(row.ci_low, row.ci_high),
        "Verdict": lambda row: f"undefined in {row.undefined}" if row.verdict == "undefined" else row.verdict,
        "Adjusted p": lambda row: probability_text(row.p_adjusted),
        "p": lambda row: probability_text(row.p),
        "Margin": lambda row: f"{row.margin:g}",
        "Perfect samplers": lambda row: number_text(row.floor_difference, sign="+"),
    }
    records = paired_tests(context, axis, *asked).assign(axis=axis)
    note = NOTE.format(significance=context.params.tests.significance)
    return records_table(name, caption, records, columns, 4, note)
