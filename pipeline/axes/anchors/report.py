"""Tables of the divergence from the base checkpoint."""

import dataclasses
from collections.abc import Mapping, Sequence

import pandas as pd

from pipeline.report.axis_table import AxisReport
from pipeline.report.context import ReportContext
from pipeline.report.evaluations import methods_of
from pipeline.report.tables.retention import split_names
from pipeline.report.tables.table import DASH, Table, detailed_table, measure_of

ANCHORS = (measure_of("anchor_kl_nats"), measure_of("anchor_reverse_kl_nats"))


def anchor_tables(metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]) -> list[Table]:
    """Divergence of the methods from base, over all instructions and by kind; base itself is at 0 and has no row."""
    kinds = split_names(metrics, "anchors", *(measure.metric for measure in ANCHORS))
    by_kind = [
        dataclasses.replace(measure, split=kind, title=f"{title}{kind}")
        for measure, title in zip(ANCHORS, ("", "Reverse, "), strict=True)
        for kind in kinds
    ]
    note = (
        "KL per token in nats, over the full vocabulary, on held-out instructions: from base's law of the next token "
        "to the model's along base's replies, and the reverse along the model's own. Brackets: 95% bootstrap "
        f"intervals over instructions. Bold: best condition of the model. {DASH}: undefined, because no reply has a "
        "token."
    )
    tables = (
        detailed_table(name, caption, note, metrics, models, measures, methods_of(conditions))
        for name, caption, measures in (
            ("anchors", "Divergence from base on general instructions", ANCHORS),
            ("anchors_by_kind", "Divergence from base by kind of instruction", by_kind),
        )
    )
    return [table for table in tables if table is not None]


def _tables(context: ReportContext) -> list[Table]:
    return anchor_tables(context.metrics, context.names, context.conditions)


REPORT = AxisReport(
    "General instructions that no method is trained on: how far a fine-tuned model's replies have moved from its base "
    "checkpoint's, token by token.",
    (_tables,),
)
