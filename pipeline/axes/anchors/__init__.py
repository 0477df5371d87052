"""Divergence from the base checkpoint on held-out instructions."""

from pipeline.axes.axis import Axis

AXIS = Axis(title="Divergence from the base checkpoint", place=7, sampled_as="anchors")
