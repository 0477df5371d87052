"""Inv-Entropy of answers to perturbed questions."""

from pipeline.axes.axis import Axis

AXIS = Axis(
    title="Inv-Entropy of perturbed questions",
    place=13,
    of_questions=True,
)
