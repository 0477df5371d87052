"""The metrics of the sets of a model's laws."""

from functools import partial

from pipeline.axes.metric import OURS, Metric

HULL = "pipeline.axes.credal.hull"
_credal = partial(
    Metric,
    formula_text="",
    direction="neither",
    n="questions",
    source=OURS,
    aggregate="mean over questions; the members are the laws under the decoding settings",
    axis="credal",
    decimals=3,
    undefined="questions",
)
_entropy = partial(_credal, unit="nats", function=f"{HULL}:entropy_split")
_distance = partial(_credal, unit="probability", direction="lower", function=f"{HULL}:hull_distance")
DISTANCE = "TV of people's law from the nearest mixture of the laws; floor: from those of held-out people's samples."
COVERED = "Share of questions whose distance is at most the 95% quantile of held-out people's; people have 0.95."
BETWEEN = "H of the mean law less the mean H; samples of one law have about (S - 1)(K - 1) / (2 S n) nats."
WIDEST = "Largest TV of two members."
METRICS = (
    _distance("credal_distance", "Distance of people's law from the set", DISTANCE, column="Distance", headline=1),
    _credal(
        "credal_covered",
        "Questions whose law of people is covered",
        COVERED,
        unit="share",
        function=f"{HULL}:coverage_row",
        column="Covered",
        headline=2,
    ),
    _entropy("credal_lower_entropy_nats", "Lower entropy", "Smallest of a mixture, which is a member's."),
    _entropy("credal_upper_entropy_nats", "Upper entropy", "Largest of a mixture.", function=f"{HULL}:upper_entropy"),
    _entropy("credal_within_entropy_nats", "Entropy within members", "Mean entropy of the members."),
    _entropy("credal_between_entropy_nats", "Entropy between members", BETWEEN),
    _credal("credal_diameter", "Diameter of the set", WIDEST, unit="probability", function=f"{HULL}:diameter"),
)
