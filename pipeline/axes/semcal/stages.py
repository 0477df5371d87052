"""What semantic calibration takes."""

from pipeline.axes.questions.stages import STYLES, evaluation_of_answers, of_questions

STAGES = of_questions(
    evaluation_of_answers(
        "semcal",
        "Semantic calibration, against accepted answers and people's",
        "evaluate.floor_replicates",
        STYLES,
    ),
)
