"""The table of the divergence from the base checkpoint."""

from pipeline.report.axis_report import AxisReport
from pipeline.report.table import Column, TableSpec

REPORT = AxisReport(
    "General instructions that no method is trained on: how far a fine-tuned model's replies have moved from its base "
    "checkpoint's, token by token.",
    (
        TableSpec(
            "anchors",
            "Divergence from base on general instructions, by kind",
            (Column("anchor_kl_nats"), Column("anchor_reverse_kl_nats")),
            "KL per token in nats, over the full vocabulary, on held-out instructions: from base's law of the next "
            "token to the model's along base's replies, and the reverse along the model's own.",
            "Kind",
        ),
    ),
)
