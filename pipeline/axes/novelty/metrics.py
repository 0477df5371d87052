"""The metrics of NoveltyBench; with a stand-in for an evaluator of the benchmark's they have names of their own."""

from functools import partial

from pipeline.axes.metric import PAPER, PROMPT_MEAN, PROMPTS, Metric

DISTINCT = {False: "distinct", True: "distinct_lexical"}
UTILITY = {False: "utility", True: "utility_stand_in"}
"""Metric by whether the evaluator is a stand-in for the benchmark's."""
_metric = partial(
    Metric,
    direction="higher",
    n=PROMPTS,
    source=f"NoveltyBench (arXiv:2504.05228); {PAPER}, Section 4.2",
    aggregate=PROMPT_MEAN,
    axis="novelty",
    decimals=2,
    undefined="prompts",
)
_distinct = partial(_metric, unit="classes", function="pipeline.core.language.novelty:distinct")
_utility = partial(
    _metric,
    formula_text="sum of 0.8^i s_i / sum of 0.8^i, s_i = 0 unless response i is the first of its class",
    unit="rating, 0 to 10",
    function="pipeline.core.language.novelty:utility",
)
_CLASSES = "Classes of responses that say the same among ten responses to a prompt, {}."
_RATINGS = "Ratings of the first response of each class, discounted by the patience of a reader who asks on; {}."
_STAND_INS = "by stand-ins, not comparable with the paper"
METRICS = (
    _distinct("distinct", "Distinct", _CLASSES.format("by the benchmark's classifier"), headline=1),
    _distinct("distinct_lexical", "Distinct (lexical stand-in)", _CLASSES.format("by word overlap"), headline=2),
    _utility("utility", "Utility", _RATINGS.format("by the benchmark's reward model"), headline=3),
    _utility("utility_stand_in", "Utility (stand-in)", _RATINGS.format(_STAND_INS), headline=4),
)
