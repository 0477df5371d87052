"""Sets of a model's laws under several decoding settings, against people's law."""

from pipeline.axes.axis import Axis

AXIS = Axis("Sets of laws", 11, of_questions=True, of_people=True)
