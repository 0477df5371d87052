"""The metrics of the sets of a model's laws."""

from functools import partial

from pipeline.axes.metric import OURS, Metric

EVALUATE = "pipeline.axes.credal.evaluate"
_credal = partial(
    Metric,
    formula_text="",
    n="questions",
    source=OURS,
    aggregate="mean over questions; the members are the laws under the decoding settings",
    axis="credal",
    function=f"{EVALUATE}:coverage_row",
    decimals=3,
    undefined="questions",
)
_distance = partial(_credal, unit="probability", direction="lower", function=f"{EVALUATE}:hull_distance")
_share = partial(_credal, unit="share", direction="neither")
_entropy = partial(_credal, unit="nats", direction="neither", function=f"{EVALUATE}:entropy_bounds")
DISTANCE = "TV of people's law from the nearest mixture of the laws; floor: from those of held-out people's samples."
COVERED = "Share of questions whose distance is at most the 95% quantile of held-out people's; people have 0.95."
METRICS = (
    _distance("credal_distance", "Distance of people's law from the set", DISTANCE, column="Distance", headline=1),
    _share("credal_covered", "Questions whose law of people is covered", COVERED, column="Covered", headline=2),
    _entropy("credal_lower_entropy_nats", "Lower entropy", "Smallest of a mixture, which is a member's."),
    _entropy("credal_upper_entropy_nats", "Upper entropy", "Largest of a mixture."),
)
