"""Agreement of a model's answers with people's."""

from pipeline.axes.axis import Axis

AXIS = Axis("Agreement with people", 9, of_questions=True, of_people=True)
