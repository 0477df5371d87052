"""What sets of a model's laws take."""

from pipeline.axes.questions.stages import of_questions

STAGES = of_questions()
