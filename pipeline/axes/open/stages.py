"""What open-ended random generation takes."""

from pipeline.axes.open import AXIS
from pipeline.dag.stage_kinds import (
    AxisStages,
    baseline_generation,
    evaluation,
    generation,
    of_all_conditions,
    prompts_of,
    scoring,
    table,
)

PROMPTS = prompts_of("open")
DESCRIPTION = "Answers to the open-ended prompts"
STAGES = AxisStages(
    generate=(generation("open", DESCRIPTION),),
    baselines=(baseline_generation("open", DESCRIPTION),),
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
    stages=(
        evaluation(
            "open",
            "Support sizes, unique outputs and entropies of open-ended answers",
            {
                "prompts": PROMPTS,
                "generations": of_all_conditions("generations", "open"),
                "scores": of_all_conditions("scores", "open"),
            },
            (
                "generate.open.num_samples",
                "models.{model}.chat",
                *(f"generate.{baseline}.answers_per_request" for baseline in AXIS.baselines),
            ),
        ),
    ),
)
