"""Uncertainty, people's and the model's."""

from pipeline.axes.axis import Axis

AXIS = Axis(
    title="Uncertainty, people's and the model's",
    place=12,
    of_questions=True,
    of_people=True,
)
