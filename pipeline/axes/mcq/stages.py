"""What multiple-choice questions take."""

from pipeline.dag.stage_kinds import AxisStages, evaluation, generation, of_all_conditions, prompts_of

STAGES = AxisStages(
    generate=(generation("mcq", "Multiple-choice questions"),),
    stages=(
        evaluation(
            "mcq",
            "Parse rates and answer-position balance",
            {"prompts": prompts_of("mcq"), "generations": of_all_conditions("generations", "mcq")},
            ("evaluate.mcq_parser",),
        ),
    ),
)
