"""What agreement with people takes."""

from pipeline.axes.questions.stages import STYLES, evaluation_of_answers, of_questions

STAGES = of_questions(
    evaluation_of_answers("human", "Agreement of a model's answers with people's", "evaluate.floor_replicates", STYLES),
)
