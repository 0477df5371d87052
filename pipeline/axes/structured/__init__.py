"""Structured sampling: one random number from a named distribution."""

from pipeline.axes.axis import Axis

AXIS = Axis(
    title="Structured sampling",
    place=1,
    splits={"ood": "held-out families", "unseen": "unseen parameters"},
    sampled_as="structured",
    baselines=("ssot", "constrained"),
)
