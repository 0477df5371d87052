"""The metrics of the sets of a model's laws."""

from functools import partial

from pipeline.axes.metric import OURS, Metric

_credal = partial(
    Metric,
    formula_text="",
    n="questions",
    source=OURS,
    aggregate="mean over questions; the members are the laws under the decoding settings",
    axis="credal",
    function="pipeline.axes.credal.evaluate:coverage_row",
    decimals=3,
    undefined="questions",
)
DISTANCE = "TV of people's law from the nearest mixture of the laws; floor: from those of held-out people's samples."
COVERED = "Share of questions whose distance is at most the 95% quantile of held-out people's; people have 0.95."
METRICS = (
    _credal(
        "credal_distance",
        "Distance of people's law from the set",
        DISTANCE,
        unit="probability",
        direction="lower",
        column="Distance",
        headline=1,
    ),
    _credal(
        "credal_covered",
        "Questions whose law of people is covered",
        COVERED,
        unit="share",
        direction="neither",
        column="Covered",
        headline=2,
    ),
)
