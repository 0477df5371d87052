"""The metrics of summaries of a model's answers."""

from functools import partial

from pipeline.axes.questions import question_metric

_summary = partial(
    question_metric,
    formula_text="mean of 1/2 ||softmax(z_summary / T) - softmax(z_list / T)||_1",
    unit="probability",
    source="arXiv:2505.20295",
    aggregate="mean over hidden words of a question, then over questions; floor: the counts of the answers in words",
    axis="selfreflect",
    function="pipeline.axes.selfreflect.summaries:tempered_distance",
)
_lower = partial(_summary, direction="lower")
_reference = partial(_summary, direction="neither")
_higher = partial(_summary, direction="higher")
OF = "Distance of a judge's law of a hidden word given {} from that given the list of the answers."
READS = "Null less perfect. Where its interval reaches 0 the judge does not read, and the other figures mean nothing."
SAMPLED = OF.format("the model's summary of its answers, which it saw,")
METRICS = (
    _lower("selfreflect_sampled", "Summary of shown answers", SAMPLED, column="Sampled", headline=1),
    _lower("selfreflect_direct", "Summary without the answers", OF.format("its summary without them"), column="Direct"),
    _reference("selfreflect_perfect", "Counts in words", OF.format("their counts in words"), column="Perfect"),
    _reference("selfreflect_null", "Summary of another question", OF.format("another's summary"), column="Null"),
    _higher("selfreflect_gain", "Gain by seeing the answers", "Direct less sampled.", column="Gain"),
    _higher("selfreflect_told_apart", "What the judge tells apart", READS, column="Told apart"),
)
