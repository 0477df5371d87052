"""Uncertainty, people's and the model's."""

from pipeline.axes.axis import Axis

AXIS = Axis("Uncertainty, people's and the model's", 12, of_questions=True, of_people=True)
