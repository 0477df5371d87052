"""Inv-Entropy of answers to perturbed questions."""

from pipeline.axes.axis import Axis

AXIS = Axis("Inv-Entropy of perturbed questions", 13, of_questions=True)
