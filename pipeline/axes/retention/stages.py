"""What TinyBenchmarks take."""

from pipeline.dag.stage_kinds import AxisStages, scoring, table

SETTINGS = ("source", "revisions", "tasks", "prompt_format", "max_new_tokens", "decoding", "scoring")
STAGES = AxisStages(
    score=(
        scoring(
            "score-retention",
            "Items of the tiny tasks, right or wrong",
            "retention",
            {},
            {"output": table("scores", "retention")},
            ("seed", *(f"retention.{name}" for name in SETTINGS)),
            "retention",
            ("retention.tokens_per_pass",),
            ("{dag.retention_source}",),
        ),
    ),
)
