"""The metrics of agreement with people."""

from functools import partial

from pipeline.axes.questions import question_metric

_human = partial(
    question_metric,
    source="arXiv:2509.23088",
    aggregate="mean over questions, of each over splits of people; floor: people who were held out",
    axis="human",
    function="pipeline.axes.human.evaluate:agreement",
)
_distance = partial(_human, direction="lower", unit="probability")
_share = partial(_human, direction="higher", unit="share")
TV = "1/2 sum |model - people| over classes of answers; those that none of the people asked gave are one class."
BAND = "Share of questions whose TV is at most the 95% quantile of held-out people's; people have 0.95."
METRICS = (
    _distance("human_tv", "Total variation from people", TV, column="TV", headline=1),
    _share("human_recall", "Recall of people's answers", "Share of people whose class the model gave at least once."),
    _share("human_within_band", "Questions within people's band", BAND, headline=2),
)
