"""Semantic calibration: is a model right as often as it is sure?"""

from pipeline.axes.axis import Axis

AXIS = Axis("Semantic calibration", 10, of_questions=True, of_people=True)
