"""NoveltyBench: how many of several responses differ, and what they are worth."""

from pipeline.axes.axis import Axis

AXIS = Axis("NoveltyBench", 4, sampled_as="novelty")
