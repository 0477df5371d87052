"""What divergence on held-out instructions takes."""

from pipeline.dag.stage_kinds import AxisStages, generation, prompts_of, scoring, table

PROMPTS = prompts_of("anchors")
STAGES = AxisStages(
    # Whatever is evaluated: divergences are along base's replies.
    generate=(generation("anchors", "Replies to held-out instructions", over="asked.anchors_and_base"),),
    score=(
        scoring(
            "score-anchors",
            "Divergence from the base checkpoint along replies to held-out instructions",
            "anchors",
            {"prompts": PROMPTS, "base_generations": "{base_replies}", "generations": table("generations", "anchors")},
            {"output": table("scores", "anchors")},
            (),
            "divergences",
            ("evaluate.tokens_per_pass",),
        ),
    ),
)
