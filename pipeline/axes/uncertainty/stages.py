"""What measures of uncertainty take."""

from pipeline.axes.questions.stages import GENERATIONS, PROMPTS, of_questions
from pipeline.dag.stage_kinds import scoring, table

STAGES = of_questions(
    score=(
        scoring(
            "score-questions",
            "First-token laws of answers to questions, and the entropy along sampled answers",
            "uncertainty",
            {"prompts": PROMPTS, "generations": GENERATIONS},
            {"output": table("scores", "questions")},
            (),
            "question_steps",
            ("evaluate.tokens_per_pass",),
        ),
    ),
)
