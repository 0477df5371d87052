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
FORWARD = (
    "KL from the base checkpoint's law of the next token to the model's, over the full vocabulary, along the base "
    "checkpoint's replies to held-out instructions."
)
REVERSE = "The same the other way round, along the model's own replies."
FORWARD_FORMULA, REVERSE_FORMULA = "mean over tokens of KL(base || model)", "mean over tokens of KL(model || base)"
METRICS = (
    _anchor("anchor_kl_nats", "Divergence from base", FORWARD, FORWARD_FORMULA, headline=1),
    _anchor("anchor_reverse_kl_nats", "Reverse divergence from base", REVERSE, REVERSE_FORMULA, headline=2),
)
