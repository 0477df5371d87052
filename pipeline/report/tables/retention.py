"""Tables of what fine-tuning keeps: 2 and 21 to 23 of the paper, and paired differences from base."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import pandas as pd

from pipeline.axes.paloma.perplexity import SUFFIXES
from pipeline.axes.registry import METRICS
from pipeline.axes.retention.answers import STATISTICS
from pipeline.config.retention import PalomaConfig, RetentionConfig
from pipeline.core.retention.tasks import ALL_COLUMNS, GENERATIVE_TASKS
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

GP_IRT, GP_IRT_PAPER_MEAN = measure_of("gp_irt"), measure_of("gp_irt_paper_mean")
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
ANSWER_METRICS = tuple(STATISTICS)
ANSWER_CHANGES = ("answer_tokens_mean_difference", "answer_derivation_share_difference")
GENERATED_SPLITS = {
    task: [column for column, (own, _) in ALL_COLUMNS.items() if own == task] for task in GENERATIVE_TASKS
}
"""Tasks whose answers are generated, and the splits of their accuracy."""
FORMAT_NOTES = {
    "chat": " Each prompt, its few-shot examples included, is one user turn of the model's chat template.",
    "chat_multiturn": " Prompts are in the model's chat template, each few-shot example a turn of its own.",
    "plain": " Prompts are plain text, without a chat template.",
}
"""What tables of the tasks say of the form in which they were put; all figures of a report have one."""
GSM8K_NOTE = "GSM8K accuracy: share of its problems for which the last number of the answer is right; higher is better."
NO_BOS_REMARK = "no BOS to leave out"
_ITEM_INTERVALS = "95% bootstrap intervals over items"
_DOCUMENT_INTERVALS = "95% bootstrap intervals over documents"


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
    """Table 2; None where neither axis was evaluated.

    Args:
        metrics: The tidy metrics table.
        models: Model name -> display name.
        conditions: Base and the methods, in order.
        gsm8k: "once" or "twice": how often GSM8K enters the evaluated mean over tasks.
        task_format: A key of FORMAT_NOTES; "" where it is not known.
    """
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


def model_table(
    metrics: pd.DataFrame,
    models: Mapping[str, str],
    conditions: Sequence[str],
    config: RetentionConfig,
    task_format: str = "",
) -> Table | None:
    """Table 21, first part: mean gp-IRT by model with either mean, or GSM8K alone; None where nothing was evaluated."""
    if is_gsm8k_alone(metrics):
        table = build_table("table21_models", "GSM8K by model", metrics, models, [GSM8K_ACCURACY], conditions)
        note = f"Problems from {config.source}. Brackets: 95% Wilson intervals. Bold: best of the row."
        return with_note(table, f"{GSM8K_NOTE}{FORMAT_NOTES.get(task_format, '')} {note}")
    # Counted twice, both means are the same.
    means = [GP_IRT, GP_IRT_PAPER_MEAN] if config.gsm8k == "once" else [GP_IRT]
    measures = existing_measures(metrics, [*means, ACCURACY])
    if not measures:
        return None
    caption = "Table 21 (a). TinyBenchmarks by model"
    table = build_table("table21_models", caption, metrics, models, measures, conditions)
    return with_note(
        table,
        f"gp-IRT: mean over tasks with GSM8K counted {config.gsm8k}; once is flexible extraction, and the paper counts "
        "it twice, strict and flexible. Accuracy: unweighted mean of the items' scores. Items from "
        f"{config.source}, item parameters from {config.irt_artifact}.{FORMAT_NOTES.get(task_format, '')} "
        f"Brackets: {_ITEM_INTERVALS}; they hold no error of the method, which stands by task further down. Bold: best "
        "of the row.",
    )


def perplexity_table(
    metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str], config: PalomaConfig
) -> Table | None:
    """Table 22: perplexity and bits per byte by model, BOS-less beside the default where both were run."""
    default = [PERPLEXITY, BITS_PER_BYTE]
    measures = existing_measures(metrics, [*default, *(without_bos(measure) for measure in default)])
    if not measures:
        return None
    table = build_table("table22", "Table 22. PALOMA by model", metrics, models, measures, conditions)
    variants = ""
    if any(measure.metric.endswith(WITHOUT_BOS) for measure in measures):
        table = _marked_without_bos(table)
        variants = (
            " Documents begin with the model's BOS token where it has one; without BOS: the paper's variant, "
            "in which a document's first token is not scored, though its bytes count. "
            "A model that has none has only one variant."
        )
    return with_note(
        table,
        f"All slices of {config.source} ({config.split}) together: summed negative log-likelihood over summed tokens "
        f"or bytes; windows of {config.window} tokens, stride {config.stride}.{variants} Perplexity does not compare "
        f"between tokenizers. Brackets: {_DOCUMENT_INTERVALS}. Bold: best of the row and variant.",
    )


def _marked_without_bos(table: Table) -> Table:
    """Says of cells without a BOS-less variant, where the default exists, that the model has no BOS."""
    nothing = Cell(math.nan, 0, math.nan, math.nan, math.nan, 0, "", NO_BOS_REMARK)
    cells: dict[str, dict[CellKey, Cell | None]] = {model: dict(row) for model, row in table.cells.items()}
    for row in cells.values():
        for (axis, split, metric, condition), cell in row.items():
            default = row.get((axis, split, metric.removesuffix(WITHOUT_BOS), condition))
            if cell is None and default is not None:
                row[axis, split, metric, condition] = dataclasses.replace(nothing, provenance=default.provenance)
    return dataclasses.replace(table, cells=cells)


def average_table(
    name: str,
    caption: str,
    metrics: pd.DataFrame,
    models: Mapping[str, str],
    conditions: Sequence[str],
    measures: Sequence[Measure],
    row_title: str,
) -> tuple[Table, list[str]]:
    """Means over models with one row per task or slice.

    A row averages the models with a defined value under every condition that any model was evaluated
    under, so that the conditions of a row are means over the same models.

    Args:
        name: File name without suffix.
        caption: What the table shows.
        metrics: The tidy metrics table.
        models: Model name -> display name.
        conditions: Base and the methods, in order.
        measures: Column groups; the row's task or slice takes the place of their split.
        row_title: "Task" or "Slice".

    Returns:
        The table, and display names of the models that some mean leaves out.
    """
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
    table = Table(
        name, caption, dict(zip(splits, splits, strict=True)), conditions, measures, cells, row_title=row_title
    )
    return table, [display_name for model, display_name in models.items() if model in left_out]


def _mean_cell(values: pd.DataFrame, complete: pd.DataFrame, condition: str, provenance: str) -> Cell | None:
    if condition not in values:
        return None
    missing = (math.nan,) * 3
    if condition not in complete or complete.empty:
        return Cell(math.nan, 0, *missing, len(values), "", "no model with every condition")
    return Cell(float(complete[condition].mean()), len(complete), *missing, 0, provenance)


def averages(metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]) -> dict[str, Table | None]:
    """Table 21, second part ("retention"), and Table 23 ("paloma"); None where nothing was evaluated."""
    tables: dict[str, Table | None] = {}
    tasks = ([GP_IRT, ACCURACY], "table21_tasks", "Table 21 (b). TinyBenchmarks by task", "Task")
    if is_gsm8k_alone(metrics):
        tasks = ([GSM8K_ACCURACY], "table21_tasks", "GSM8K by extraction", "Extraction")
    for axis, measures, name, caption, row_title in (
        ("retention", *tasks),
        ("paloma", paloma_measures(metrics), "table23", "Table 23. PALOMA by slice", "Slice"),
    ):
        measures = [dataclasses.replace(measure, split="") for measure in measures]
        table, left_out = average_table(
            name, f"{caption}, mean over models", metrics, models, conditions, measures, row_title
        )
        if table.is_empty:
            tables[axis] = None
            continue
        count = number_range([cell.n for measure in measures for cell in table.existing_cells(measure)], 0)
        gap = f" Left out, because a condition is missing or undefined: {', '.join(left_out)}." if left_out else ""
        text = (
            " Perplexities of different tokenizers are unlike numbers: read bits per byte." if axis == "paloma" else ""
        )
        shared = "documents" if axis == "paloma" else "items"
        tables[axis] = with_note(
            table,
            f"Mean over {count} {'model' if count == '1' else 'models'}, the same for all conditions of a row.{gap}"
            f"{text} No intervals: the models share {shared}, so their intervals do not combine. Bold: best of "
            "the row.",
        )
    return tables


def breakdown(metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str], axis: str) -> Table | None:
    """Every model and condition by task ("retention": gp-IRT) or slice ("paloma": bits per byte)."""
    if axis == "retention":
        name, measure = "retention_by_task", GP_IRT
        caption = "gp-IRT by model and task, the figures of Figure 11"
        intervals = _ITEM_INTERVALS
    else:
        name, measure = "paloma_by_slice", paloma_measures(metrics)[1]
        caption = "PALOMA bits per byte by model and slice, the figures of Figure 13"
        intervals = _DOCUMENT_INTERVALS
    measures = [
        dataclasses.replace(measure, split=split, title=split) for split in split_names(metrics, axis, measure.metric)
    ]
    note = f"Brackets: {intervals}. Bold: best condition of the model. {DASH}: undefined."
    return detailed_table(name, caption, note, metrics, models, measures, conditions)


def answer_tables(metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]) -> list[Table]:
    """How the generated answers to each task are: accuracy, length and derivations, then paired changes from base."""
    tables, changes = [], []
    for task, readings in GENERATED_SPLITS.items():
        measures = [
            measure_of("accuracy", split, title=f"Accuracy {split[split.index('(') :]}", axis="retention")
            for split in readings
        ]
        measures += [measure_of(name, task, axis="retention") for name in ANSWER_METRICS]
        if not existing_measures(metrics, [measure for measure in measures if measure.metric in ANSWER_METRICS]):
            continue
        table = detailed_table(
            f"retention_answers_{task}",
            f"Answers to {task}: accuracy, length and derivations",
            "Tokens: that an answer took, the one that ends it included. End by themselves: before the limit on their "
            "length. With a derivation: at least one equation such as 16 - 3 = 13, or a calculator annotation. "
            f"Brackets: {_ITEM_INTERVALS}, for shares of answers Wilson's.",
            metrics,
            models,
            measures,
            conditions,
        )
        tables.append(table)
        changes += [
            measure_of(name, task, axis="retention", title=f"{METRICS[name].title} ({task})") for name in ANSWER_CHANGES
        ]
    if existing := existing_measures(metrics, changes):
        caption = "Generated answers: differences from base, paired"
        table = build_table("retention_answer_differences", caption, metrics, models, existing, methods_of(conditions))
        note = (
            "Fine-tuned minus base on the same items. Brackets: 95% bootstrap intervals over items, the same drawn for"
        )
        tables.append(with_note(table, f"{note} both."))
    return tables
