"""The metrics of summaries of a model's answers."""

from functools import partial

from pipeline.metrics.metric import OURS, Metric

PAPER = "arXiv:2505.20295"
_summary = partial(
    Metric,
    axis="selfreflect",
    n="questions",
    aggregate="mean over hidden words of a question, then over questions; floor: the counts of the answers in words",
    decimals=3,
    undefined="questions",
    source=PAPER,
    unit="probability",
    direction="lower",
    formula_text="mean of 1/2 ||softmax(z_summary / T) - softmax(z_list / T)||_1",
    function="pipeline.axes.selfreflect.summaries:tempered_distance",
)
DISTANCE = "Distance of a judge's law of a hidden word given {}, from its law given the list of answers."
METRICS = (
    _summary(
        name="selfreflect_sampled",
        title="Summary of shown answers",
        definition=DISTANCE.format("the model's summary of its answers, which it was shown"),
        column="Sampled",
        headline=1,
    ),
    _summary(
        name="selfreflect_direct",
        title="Summary without the answers",
        definition=DISTANCE.format("the model's summary, written without its answers"),
        column="Direct",
    ),
    _summary(
        name="selfreflect_perfect",
        title="Counts in words",
        definition=DISTANCE.format("the counts of the answers in words"),
        direction="neither",
        column="Perfect",
    ),
    _summary(
        name="selfreflect_null",
        title="Summary of another question",
        definition=DISTANCE.format("the model's summary of another question"),
        direction="neither",
        source=OURS,
        column="Null",
    ),
    _summary(
        name="selfreflect_gain",
        title="Gain by seeing the answers",
        definition="Distance without the answers less that with them.",
        formula_text="direct - sampled",
        direction="higher",
        column="Gain",
    ),
    _summary(
        name="selfreflect_told_apart",
        title="What the judge tells apart",
        definition="Distance of another question's summary less that of the counts. Where its interval reaches 0 the "
        "judge does not read, and the other figures mean nothing.",
        formula_text="null - perfect",
        direction="higher",
        source=OURS,
        column="Null - perfect",
    ),
)
