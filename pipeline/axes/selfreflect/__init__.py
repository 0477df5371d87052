"""Summaries of a model's answers."""

from pipeline.axes.axis import Axis

AXIS = Axis(
    title="Summaries of a model's answers",
    place=14,
    sampled_as="selfreflect",
    of_questions=True,
)
