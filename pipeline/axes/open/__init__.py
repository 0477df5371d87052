"""Open-ended random generation, such as a random city."""

from pipeline.axes.axis import Axis

AXIS = Axis(
    title="Open-ended generation",
    place=2,
    splits={"open": ""},
    sampled_as="open",
    # Constrained decoding needs a trie, which only the structured prompts have.
    baselines=("ssot",),
)
