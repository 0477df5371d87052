"""Tables of the divergence from the base checkpoint."""

import dataclasses

from pipeline.report.axis_table import AxisReport
from pipeline.report.context import ReportContext
from pipeline.report.tables.retention import split_names
from pipeline.report.tables.table import DASH, Table, detailed_table, measure_of

ANCHORS = (measure_of("anchor_kl_nats"), measure_of("anchor_reverse_kl_nats"))


def _tables(context: ReportContext) -> list[Table | None]:
    """Divergence of the methods from base, over all instructions and by kind; base itself is at 0 and has no row."""
    kinds = split_names(context.metrics, "anchors", *(measure.metric for measure in ANCHORS))
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
    return [
        detailed_table(name, caption, note, context.metrics, context.names, measures, context.methods)
        for name, caption, measures in (
            ("anchors", "Divergence from base on general instructions", ANCHORS),
            ("anchors_by_kind", "Divergence from base by kind of instruction", by_kind),
        )
    ]


REPORT = AxisReport(
    "General instructions that no method is trained on: how far a fine-tuned model's replies have moved from its base "
    "checkpoint's, token by token.",
    (_tables,),
)
