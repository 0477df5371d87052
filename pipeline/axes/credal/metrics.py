"""The metrics of the sets of a model's laws."""

from functools import partial

from pipeline.axes.metric import OURS
from pipeline.axes.questions import question_metric

_credal = partial(
    question_metric,
    source=OURS,
    aggregate="mean over questions; the members are the laws under the decoding settings",
    axis="credal",
    function="pipeline.axes.credal.evaluate:coverage_row",
)
_distance = partial(_credal, unit="probability", direction="lower")
_share = partial(_credal, unit="share", direction="neither")
DISTANCE = "TV of people's law from the nearest mixture of the laws; floor: from those of held-out people's samples."
COVERED = "Share of questions whose distance is at most the 95% quantile of held-out people's; people have 0.95."
METRICS = (
    _distance("credal_distance", "Distance of people's law from the set", DISTANCE, column="Distance", headline=1),
    _share("credal_covered", "Questions whose law of people is covered", COVERED, column="Covered", headline=2),
)
