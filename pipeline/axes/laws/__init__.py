"""Laws of one's own, from files."""

from pipeline.axes.axis import Axis

AXIS = Axis(
    title="Laws of one's own",
    place=8,
    splits={
        "held_out_template": "held-out templates",
        "held_out_field": "held-out values",
        "held_out_words": "held-out words",
        "held_out_chances": "held-out form of chances",
    },
    sampled_as="structured",
)
SPLIT_TITLES = {**AXIS.splits, "seen_template": "what was trained on"}
