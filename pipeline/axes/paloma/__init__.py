"""PALOMA: how well the model predicts held-out text."""

from pipeline.axes.axis import Axis

AXIS = Axis(title="Retention: PALOMA", place=6)
