"""What sets of a model's laws take."""

from pipeline.axes.questions.stages import evaluation_of_answers, of_questions

STAGES = of_questions(
    evaluation_of_answers(
        "credal",
        "The sets of a model's laws under several decoding settings, against people's law",
        "generate.questions.settings",
    ),
)
