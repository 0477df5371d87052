"""Tables of what fine-tuning keeps of tasks and text: 2 of the paper, paired differences, and what their axes share."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import pandas as pd

from pipeline.axes.paloma.perplexity import SUFFIXES
from pipeline.axes.registry import METRICS
from pipeline.record.provenance import join_sources
from pipeline.report.evaluations import methods_of, rows_of
from pipeline.report.tables.table import (
    DASH,
    Cell,
    CellKey,
    Measure,
    Table,
    build_table,
    detailed_table,
    existing_measures,
    measure_of,
    number_range,
    with_note,
)

GP_IRT = measure_of("gp_irt")
ACCURACY = measure_of("accuracy", title="Accuracy on the items")
GSM8K_ACCURACY = measure_of("accuracy", title="GSM8K accuracy")
PERPLEXITY, BITS_PER_BYTE = measure_of("perplexity"), measure_of("bits_per_byte")
WITHOUT_BOS = SUFFIXES["none"]
DIFFERENCES = (
    measure_of("gp_irt_difference", bold=False),
    measure_of("accuracy_difference", bold=False),
    measure_of("bits_per_byte_difference", bold=False),
    measure_of("perplexity_ratio", bold=False),
)
FORMAT_NOTES = {
    "chat": " Each prompt, its few-shot examples included, is one user turn of the model's chat template.",
    "chat_multiturn": " Prompts are in the model's chat template, each few-shot example a turn of its own.",
    "plain": " Prompts are plain text, without a chat template.",
}
"""What tables of the tasks say of the form in which they were put; all figures of a report have one."""
GSM8K_NOTE = "GSM8K accuracy: share of its problems for which the last number of the answer is right; higher is better."


def without_bos(default: Measure) -> Measure:
    """The same metric from documents that do not begin with the model's BOS token, as in the paper."""
    metric = METRICS[default.metric + WITHOUT_BOS]
    return dataclasses.replace(default, metric=metric.name, title=metric.column_title)


def one_name_per_variant(metrics: pd.DataFrame) -> pd.DataFrame:
    """Metrics in which PALOMA has one name for text without BOS, where no model was scored with BOS.

    A model that has no BOS token is scored under the default names even if only text without BOS was asked for;
    beside models that have one, its metrics then get their names.
    """
    paloma = metrics["axis"] == "paloma"
    without = paloma & metrics["metric"].str.endswith(WITHOUT_BOS)
    default = paloma & ~without
    if not without.any() or set(metrics.loc[without, "model"]) & set(metrics.loc[default, "model"]):
        return metrics
    renamed = metrics["metric"].where(~default, metrics["metric"] + WITHOUT_BOS)
    return metrics.assign(metric=renamed)


def _variant(metrics: pd.DataFrame, measures: Sequence[Measure]) -> list[Measure]:
    """The measures, those of PALOMA without BOS where no model has any of them by default."""
    default = [measure for measure in measures if measure.axis == "paloma"]
    without = existing_measures(metrics, [without_bos(measure) for measure in default])
    if not without or existing_measures(metrics, default):
        return list(measures)
    return [without_bos(measure) if measure.axis == "paloma" else measure for measure in measures]


def paloma_measures(metrics: pd.DataFrame) -> list[Measure]:
    """Perplexity and bits per byte over all slices: the default where any model has it, else without BOS."""
    return _variant(metrics, [PERPLEXITY, BITS_PER_BYTE])


def difference_from_base(metric: str) -> str:
    """Name of the metric of a metric's difference from base; a variant's suffix stands at its end."""
    stem = metric.removesuffix(WITHOUT_BOS)
    return f"{stem}_difference{metric.removeprefix(stem)}"


def is_gsm8k_alone(metrics: pd.DataFrame) -> bool:
    """Whether the whole of GSM8K was evaluated without the tiny tasks, so that there is no gp-IRT."""
    return existing_measures(metrics, [GP_IRT, ACCURACY]) == [ACCURACY]


def split_names(metrics: pd.DataFrame, axis: str, *names: str) -> list[str]:
    """Tasks or slices of an axis that have one of the metrics, as they first appear, without the total."""
    rows = rows_of(metrics, axis=axis, family="")
    splits = rows.loc[rows["metric"].isin(names), "split"]
    return [split for split in dict.fromkeys(splits) if split != "all"]


def retention_summary(
    metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str], gsm8k: str, task_format: str = ""
) -> Table | None:
    """Table 2; None where neither axis was evaluated. ``task_format`` is a key of FORMAT_NOTES, "" if unknown."""
    text = [
        dataclasses.replace(measure, title=f"PALOMA {measure.title[0].lower()}{measure.title[1:]}")
        for measure in paloma_measures(metrics)
    ]
    alone = is_gsm8k_alone(metrics)
    measures = [GSM8K_ACCURACY if alone else GP_IRT, *text]
    table = build_table("table2", "Table 2. What is kept: tasks and text", metrics, models, measures, conditions)
    if table.is_empty:
        return None
    ability = (
        GSM8K_NOTE
        if alone
        else "gp-IRT: accuracy on the whole benchmarks as estimated from 100 items each, mean over tasks with GSM8K "
        f"counted {gsm8k}; higher is better."
    )
    return with_note(
        table,
        f"{ability}{FORMAT_NOTES.get(task_format, '')} "
        "Perplexity per token and bits per byte over all slices; lower is better. "
        "Perplexity does not compare between tokenizers, bits per byte do. Brackets: 95% intervals over "
        "items or documents, of each condition alone; paired differences stand in the next table. Bold: best of the "
        "row, whether or not the difference can be told from chance.",
    )


def difference_table(metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]) -> Table | None:
    """Paired differences of the methods from base, over all tasks and slices; None where there are none."""
    measures = existing_measures(metrics, _variant(metrics, DIFFERENCES))
    if not measures:
        return None
    caption = "Differences from base, paired"
    table = build_table("retention_differences", caption, metrics, models, measures, methods_of(conditions))
    return with_note(
        table,
        "Fine-tuned minus base on the same items and documents (perplexity: fine-tuned over base). Above 0 is better "
        "for gp-IRT and accuracy; below 0, and below 1 for the ratio, is better for text. Brackets: 95% bootstrap "
        "intervals over items or documents, the same drawn for both.",
    )


def average_table(
    name: str,
    metrics: pd.DataFrame,
    models: Mapping[str, str],
    conditions: Sequence[str],
    caption: str,
    measures: Sequence[Measure],
    row_title: str,
    shared: str,
    remark: str = "",
) -> Table | None:
    """Means over models with one row per task or slice; None where nothing was evaluated.

    A row averages the models with a defined value under every condition that any model was evaluated
    under, so that the conditions of a row are means over the same models. ``row_title`` is "Task" or "Slice",
    ``shared`` what the models have in common, "items" or "documents".
    """
    measures = [dataclasses.replace(measure, split="") for measure in measures]
    splits = split_names(metrics, measures[0].axis, *(measure.metric for measure in measures))
    aggregates = rows_of(metrics, axis=measures[0].axis, family="")
    chosen = aggregates[aggregates["model"].isin(models) & aggregates["condition"].isin(conditions)]
    cells: dict[str, dict[CellKey, Cell | None]] = {split: {} for split in splits}
    left_out: set[str] = set()
    for split in splits:
        for measure in measures:
            rows = rows_of(chosen, split=split, metric=measure.metric)
            values = rows.pivot(index="model", columns="condition", values="value")
            complete = values.dropna(axis="columns", how="all").dropna()
            left_out |= set(values.index) - set(complete.index)
            for condition in conditions:
                key = (measure.axis, measure.split, measure.metric, condition)
                sources = rows.loc[(rows["condition"] == condition) & rows["model"].isin(complete.index), "provenance"]
                cells[split][key] = _mean_cell(values, complete, condition, join_sources(sources))
    titles = dict(zip(splits, splits, strict=True))
    table = Table(name, f"{caption}, mean over models", titles, conditions, measures, cells, row_title=row_title)
    if table.is_empty:
        return None
    count = number_range([cell.n for measure in measures for cell in table.existing_cells(measure)], 0)
    absent = ", ".join(display_name for model, display_name in models.items() if model in left_out)
    gap = f" Left out, because a condition is missing or undefined: {absent}." if absent else ""
    return with_note(
        table,
        f"Mean over {count} {'model' if count == '1' else 'models'}, the same for all conditions of a row.{gap}"
        f"{remark} No intervals: the models share {shared}, so their intervals do not combine. Bold: best of the row.",
    )


def _mean_cell(values: pd.DataFrame, complete: pd.DataFrame, condition: str, provenance: str) -> Cell | None:
    if condition not in values:
        return None
    missing = (math.nan,) * 3
    if condition not in complete or complete.empty:
        return Cell(math.nan, 0, *missing, len(values), "", "no model with every condition")
    return Cell(float(complete[condition].mean()), len(complete), *missing, 0, provenance)


def split_table(
    name: str,
    metrics: pd.DataFrame,
    models: Mapping[str, str],
    conditions: Sequence[str],
    caption: str,
    measure: Measure,
    shared: str,
) -> Table | None:
    """A measure of every model and condition by task or slice."""
    measures = [
        dataclasses.replace(measure, split=split, title=split)
        for split in split_names(metrics, measure.axis, measure.metric)
    ]
    note = f"Brackets: 95% bootstrap intervals over {shared}. Bold: best condition of the model. {DASH}: undefined."
    return detailed_table(name, caption, note, metrics, models, measures, conditions)
