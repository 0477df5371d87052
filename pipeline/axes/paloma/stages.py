"""What perplexity on PALOMA takes."""

from pipeline.dag.stage_kinds import AxisStages, scoring, table

SETTINGS = ("source", "revision", "split", "slices", "window", "stride", "bos", "max_documents_per_slice")
STAGES = AxisStages(
    score=(
        scoring(
            "score-paloma",
            "Log-likelihoods of PALOMA's documents",
            "paloma",
            {},
            {"output": table("scores", "paloma")},
            tuple(f"paloma.{name}" for name in SETTINGS),
            "paloma",
            ("paloma.tokens_per_pass",),
            ("{dag.paloma_source}",),
        ),
    )
)
