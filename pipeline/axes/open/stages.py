"""What open-ended random generation takes."""

from pipeline.dag.stage_kinds import AxisStages, generation, prompts_of, scoring, table

PROMPTS = prompts_of("open")
DESCRIPTION = "Answers to the open-ended prompts"
STAGES = AxisStages(
    generate=(generation("open", DESCRIPTION),),
    baselines=(generation("open", DESCRIPTION, sampled_as="{condition}"),),
    score=(
        scoring(
            "score-open",
            "First-step distributions of the open-ended prompts",
            "open",
            {"prompts": PROMPTS},
            {"output": table("scores", "open")},
            (),
            "first_steps",
        ),
    ),
)
