"""The metrics of summaries of a model's answers."""

from functools import partial

from pipeline.metrics.answers import CHANGE
from pipeline.metrics.metric import OURS, Metric

PAPER = "arXiv:2505.20295"
_METRICS = "pipeline.core.semantics.selfreflect_metrics"
_selfreflect = partial(
    Metric,
    axis="selfreflect",
    formula_text="mean over hidden words of 1/2 ||softmax(z_summary / T) - softmax(z_list / T)||_1",
    unit="probability",
    direction="lower",
    n="questions",
    source=PAPER,
    aggregate="mean over a question's hidden words, then over questions; default decoding setting",
    decimals=3,
    undefined="questions",
    function="pipeline.core.semantics.selfreflect:tempered_distance",
)
_SUMMARIES = {
    "sampled": ("Summary of sampled answers", "the model's summary of its sampled answers", "Sampled"),
    "direct": ("Summary without samples", "the model's summary of what it might answer, without samples", "Direct"),
    "perfect": ("Counts of the answers in words", "the counts of the answers in words", "Counts in words"),
    "null": ("Summary of another question", "the model's summary of its answers to another question", "Other question"),
}
_GAIN = "What a summary gains by sampling"
SELFREFLECT = (
    *(
        _selfreflect(
            name=f"selfreflect_{name}",
            title=title,
            definition="Total variation of a judge's tempered law of a hidden word of a further answer given "
            f"{meaning}, from its law given the list of the sampled answers.",
            column=column,
            headline={"sampled": 1, "direct": 2}.get(name, 0),
        )
        for name, (title, meaning, column) in _SUMMARIES.items()
    ),
    _selfreflect(
        name="selfreflect_gain",
        title=_GAIN,
        definition="The distance of the summary without samples less that of the summary of sampled answers, on the "
        "same questions.",
        formula_text="direct - sampled",
        direction="higher",
        function=f"{_METRICS}:question_table",
        column="Gain by sampling",
    ),
    *(
        _selfreflect(
            name=f"selfreflect_{name}_difference",
            title=f"{title}, change",
            definition=CHANGE.format(f"the {what}"),
            formula_text="own - base, on the same questions",
            direction="neither" if name == "gain" else "lower",
            source=OURS,
            function=f"{_METRICS}:metric_rows",
            column=column,
        )
        for name, title, what, column in (
            *(
                (name, _SUMMARIES[name][0], f"distance of {_SUMMARIES[name][1]}", _SUMMARIES[name][2])
                for name in ("sampled", "direct")
            ),
            ("gain", _GAIN, "gain by sampling", "Gain by sampling"),
        )
    ),
)
