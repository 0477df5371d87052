"""Tables of an axis as short specifications over the metrics: a row for each model, condition and split or measure."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import pandas as pd

from pipeline.axes.registry import METRICS
from pipeline.record.provenance import join_sources
from pipeline.report.context import ReportContext
from pipeline.report.evaluations import rows_of
from pipeline.report.figures.drawing import Drawing
from pipeline.report.tables.table import (
    DASH,
    MISSING,
    ListTable,
    Table,
    interval_text,
    number_text,
    probability_text,
)

INTERVALS = "Brackets: 95% bootstrap intervals over questions. Change: condition less base, on the same questions."
Cells = Mapping[str, Any]
"""Rows of metrics.csv by metric."""


class Column(NamedTuple):
    """A metric in a table: its value, its floor, or its paired change from base.

    Attributes:
        metric: Name; "{row}" stands for the row's key.
        field: What of it is shown.
        title: Column title; empty for the metric's own.
    """

    metric: str
    field: Literal["value", "floor", "change", "p"] = "value"
    title: str = ""


@dataclass(frozen=True)
class AxisTable:
    """What a table shows.

    Attributes:
        name: File name without suffix.
        caption: What it shows.
        axis: Axis of its metrics.
        columns: Left to right.
        note: What a reader needs beside the titles; ``intervals`` is added.
        rows_title: What the rows of a model and condition are; empty for one row each.
        rows: Title of each such row by key; empty for the splits that there are, "all" first.
        verdict: Title and text of a last column, from the cells of a row; None without one.
        intervals: What intervals and changes are.
    """

    name: str
    caption: str
    axis: str
    columns: Sequence[Column]
    note: str = ""
    rows_title: str = ""
    rows: Mapping[str, str] = field(default_factory=dict)
    verdict: tuple[str, Callable[[Cells, str], str]] | None = None
    intervals: str = INTERVALS


@dataclass(frozen=True)
class AxisReport:
    """What the report shows of an axis.

    Attributes:
        explanation: The question that it answers, in a sentence.
        tables: Its tables in order: specifications, or functions that make several where a specification cannot.
        drawings: Figures by file name; None without one.
    """

    explanation: str
    tables: Sequence[AxisTable | Callable[[ReportContext], Sequence[Table | ListTable | None]]]
    drawings: Callable[[ReportContext], dict[str, Drawing]] | None = None

    def make_tables(self, context: ReportContext) -> list[Table | ListTable]:
        """Those of its tables that there is something to show in."""
        found: list[Table | ListTable | None] = []
        for table in self.tables:
            if isinstance(table, AxisTable):
                found.append(axis_table(table, context.metrics, context.names, context.conditions))
            else:
                found.extend(table(context))
        return [table for table in found if table is not None]


def axis_table(
    spec: AxisTable, metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]
) -> ListTable | None:
    """The table of what was evaluated; None where nothing was."""
    found = rows_of(metrics, axis=spec.axis)
    wanted = {column.metric.format(row=key) for column in spec.columns for key in (spec.rows or ("",))}
    found = found[found["metric"].isin(wanted)]
    if found.empty:
        return None
    keyed = {(row.model, row.condition, row.split, row.metric): row for row in found.itertuples()}
    splits = sorted(found["split"].unique(), key=lambda split: split != "all")
    texts, records = [], []
    for model in (model for model in models if (found["model"] == model).any()):
        for condition in conditions:
            for key, title in (spec.rows or dict(zip(splits, splits, strict=True))).items():
                split = "all" if spec.rows else key
                cells = {
                    column.metric: keyed.get((model, condition, split, column.metric.format(row=key)))
                    for column in spec.columns
                }
                present = {metric: row for metric, row in cells.items() if row is not None}
                labels = [models[model], condition, *([title] if spec.rows_title else [])]
                shown = [_text(cells[column.metric], column, condition) for column in spec.columns]
                verdict = [spec.verdict[1](present, condition)] if spec.verdict else []
                texts.append([*labels, *shown, *verdict])
                records.append(_record(model, condition, key, spec, present))
    titles = [
        column.title or METRICS[column.metric.format(row=next(iter(spec.rows or ("",))))].column_title
        for column in spec.columns
    ]
    labels = ["Model", "Condition", *([spec.rows_title] if spec.rows_title else [])]
    header = [*labels, *titles, *([spec.verdict[0]] if spec.verdict else [])]
    note = f"{spec.note} {spec.intervals}".strip()
    return ListTable(spec.name, spec.caption, header, texts, len(labels), pd.DataFrame(records), note)


def _record(model: str, condition: str, key: str, spec: AxisTable, present: Cells) -> dict[str, Any]:
    record = {"model": model, "condition": condition, "row": key}
    for row in present.values():
        name = row.metric.replace(f"_{key}_", "_")
        record |= {name: row.value, f"{name}_n": row.n}
    sources = dict.fromkeys(row.provenance for row in present.values())
    return {**record, "provenance": join_sources(sources)}


def _text(row: Any, column: Column, condition: str) -> str:
    if row is None:
        return MISSING
    decimals = METRICS[row.metric].decimals
    if column.field == "floor":
        return number_text(row.floor, decimals)
    if column.field == "change":
        if condition == "base" or not math.isfinite(row.change):
            return DASH
        return f"{row.change:+.{decimals}f} {interval_text(row.change_low, row.change_high, decimals)}"
    if not math.isfinite(row.value):
        return row.note if isinstance(row.note, str) and row.note else "undefined"
    if column.field == "p":
        return probability_text(row.value)
    interval = f" {interval_text(row.ci_low, row.ci_high, decimals, '')}" if math.isfinite(row.ci_low) else ""
    return f"{row.value:.{decimals}f}{interval}"
