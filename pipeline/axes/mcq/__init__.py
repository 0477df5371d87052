"""Multiple-choice questions that the model writes, and where it puts the right answer."""

from pipeline.axes.axis import Axis

AXIS = Axis(title="Multiple-choice questions", place=3, splits={"mcq": ""}, sampled_as="mcq")
