"""Summaries of a model's answers."""

from pipeline.axes.axis import Axis

AXIS = Axis("Summaries of a model's answers", 14, sampled_as="selfreflect", of_questions=True)
