"""Semantic calibration: is a model right as often as it is sure?"""

from pipeline.axes.axis import Axis

AXIS = Axis(
    title="Semantic calibration",
    place=10,
    of_questions=True,
    of_people=True,
)
