"""What the tables of tasks and of text share: by task or slice, and tests against base."""

from collections.abc import Sequence

import pandas as pd

from pipeline.axes.paloma.metrics import SUFFIXES
from pipeline.axes.registry import METRICS
from pipeline.config.params import BASE
from pipeline.record.provenance import join_sources
from pipeline.report.evaluations import ReportContext, rows_of
from pipeline.report.table import (
    DASH,
    Column,
    Table,
    TableSpec,
    interval_text,
    make_table,
    number_text,
    probability_text,
    records_table,
)

WITHOUT_BOS = SUFFIXES["none"]
FORMAT_NOTES = {
    "chat": " Each prompt, its few-shot examples included, is one user turn of the model's chat template.",
    "plain": " Prompts are plain text, without a chat template.",
}
"""What tables of the tasks say of the form in which they were put; all figures of a report have one."""
MEAN = "mean over models"


def text_columns(*metrics: str) -> list[Column]:
    """Metrics of PALOMA, each beside its variant without BOS, which is the paper's."""
    return [Column(metric + suffix) for suffix in ("", WITHOUT_BOS) for metric in metrics]


def by_split(
    context: ReportContext, axis: str, name: str, caption: str, columns: Sequence[Column], rows_title: str, note: str
) -> Table | None:
    """An axis by task or slice, with means over models beside the models where there are several.

    A mean is over the models that have the metric under all conditions that any model has.
    """
    rows, names = rows_of(context.metrics, axis=axis, family=""), context.names
    metrics = context.metrics
    if rows["model"].nunique() > 1:
        chosen = rows[rows["model"].isin(names) & rows["condition"].isin(context.conditions)]
        metrics = pd.concat([metrics, *_means(chosen)], ignore_index=True)
        names = {**names, MEAN: MEAN.capitalize()}
        note += " Means are over the models with all conditions and have no intervals: the models share what is asked."
    spec = TableSpec(name, caption, columns, note, rows_title)
    return make_table(spec, metrics, names, context.conditions, context.evaluations.failed)


def _means(rows: pd.DataFrame) -> list[pd.DataFrame]:
    found = []
    for (split, metric), members in rows.groupby(["split", "metric"], sort=False):
        values = members.pivot(index="model", columns="condition", values="value").dropna(axis="columns", how="all")
        complete = values.dropna()
        labels = {"axis": members["axis"].iloc[0], "model": MEAN, "split": split, "family": "", "metric": metric}
        sources = members[members["model"].isin(complete.index)].groupby("condition")["provenance"].agg(join_sources)
        means = complete.mean().rename("value").reset_index().assign(**labels, n=len(complete), undefined=0)
        if len(complete):
            found.append(means.assign(provenance=means["condition"].map(sources)))
    return found


def verdict_table(context: ReportContext, axis: str, caption: str, unit: str) -> Table | None:
    """All tests of an axis against base, a row per model, condition and task; None where there are none."""
    keys = ["model", "condition", "split", "metric"]
    sizes = rows_of(context.metrics, axis=axis, family="")[[*keys, "n"]]
    tests = context.tests(axis).assign(axis=axis, against=BASE).merge(sizes, on=keys, how="left")
    columns = {
        "Model": lambda row: context.names[row.model],
        "Condition": lambda row: row.condition,
        unit: lambda row: row.split,
        "Metric": lambda row: METRICS[row.metric].title,
        "n": lambda row: number_text(row.n, 0),
        "Difference": lambda row: number_text(row.difference, METRICS[row.metric].decimals, "+"),
        "95% interval": lambda row: interval_text(row.ci_low, row.ci_high, METRICS[row.metric].decimals),
        "Margin": lambda row: f"{row.margin:g}",
        "Adjusted p": lambda row: probability_text(row.p_difference_adjusted),
        "Verdict": lambda row: row.verdict,
    }
    note = (
        "Difference: of the items' scores, fine-tuned minus base; above 0 is better. All items of all tasks together "
        "(all; every task with the same weight) are the primary question, which is asked by itself and not adjusted; "
        f"the {unit.lower()}s, adjusted by Holm, say where a change lies. Better or worse: adjusted p at most "
        f"{context.params.tests.significance:g}, and the interval beyond the margin. No relevant difference: the "
        f"interval is within the margin. Nothing is said where base has no more than the margin to lose. {DASH}: "
        "undefined."
    )
    return records_table(f"{axis}_tests", caption, tests, columns, 4, note)
