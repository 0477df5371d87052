"""The metrics of the divergence from the base checkpoint."""

from functools import partial

from pipeline.axes.metric import OURS, Metric

_anchor = partial(
    Metric,
    axis="anchors",
    unit="nats per token",
    direction="lower",
    n="instructions",
    source=OURS,
    aggregate="sum over replies / their tokens; splits are kinds of instructions, and all of them",
    function="pipeline.axes.anchors.evaluate:prompt_sums",
    decimals=4,
    undefined="instructions without a token",
)


METRICS = (
    _anchor(
        name="anchor_kl_nats",
        title="Divergence from base",
        definition="KL from the base checkpoint's law of the next token to the model's, over the full vocabulary, "
        "along the base checkpoint's replies to held-out instructions.",
        formula_text="mean over tokens of KL(base || model)",
        headline=1,
    ),
    _anchor(
        name="anchor_reverse_kl_nats",
        title="Reverse divergence from base",
        definition="The same the other way round, along the model's own replies.",
        formula_text="mean over tokens of KL(model || base)",
        headline=2,
    ),
)
