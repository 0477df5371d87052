"""What semantic calibration takes."""

from pipeline.axes.questions.stages import of_questions

STAGES = of_questions()
