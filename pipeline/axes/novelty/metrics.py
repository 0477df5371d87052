"""The metrics of NoveltyBench."""

from functools import partial

from pipeline.axes.metric import OURS, PAPER, PROMPT_MEAN, PROMPTS, Metric

NOVELTY = f"NoveltyBench (arXiv:2504.05228); {PAPER}, Section 4.2"


_novelty = partial(Metric, axis="novelty", undefined="prompts")
_distinct = partial(
    _novelty,
    formula_text="number of classes",
    unit="classes",
    direction="higher",
    n=PROMPTS,
    source=NOVELTY,
    aggregate=PROMPT_MEAN,
    function="pipeline.core.language.novelty:distinct",
    decimals=2,
)
_utility = partial(
    _distinct,
    formula_text="sum of 0.8^i s_i / sum of 0.8^i, s_i = 0 unless response i is the first of its class",
    unit="rating, 0 to 10",
    function="pipeline.core.language.novelty:utility",
)
_count = partial(
    _novelty,
    n="1: one run",
    source=OURS,
    aggregate="over all prompts",
    function="pipeline.axes.novelty.aggregate:call_figures",
    formula_text="count",
    direction="neither",
    decimals=0,
)

_CLASSES = "Classes of responses that say the same among ten responses to a prompt, {}."
_RATINGS = "Ratings of the first response of each class, discounted by the patience of a reader who asks on; {}."

METRICS = (
    _distinct(
        name="distinct",
        title="Distinct",
        definition=_CLASSES.format("by the benchmark's classifier"),
        headline=1,
    ),
    _distinct(
        name="distinct_lexical",
        title="Distinct (lexical stand-in)",
        definition=_CLASSES.format("by word overlap"),
        headline=2,
    ),
    _utility(
        name="utility", title="Utility", definition=_RATINGS.format("by the benchmark's reward model"), headline=3
    ),
    _utility(
        name="utility_stand_in",
        title="Utility (stand-in)",
        definition=_RATINGS.format("by stand-ins, not comparable with the paper"),
        headline=4,
    ),
    _count(
        name="novelty_pairs",
        title="Pairs of responses",
        definition="Pairs of responses to one prompt, over all prompts.",
        unit="pairs",
        column="Pairs",
    ),
    _count(
        name="novelty_pairs_compared",
        title="Pairs compared",
        definition="Pairs that the greedy partition compares.",
        unit="pairs",
    ),
    _count(
        name="novelty_pairs_classified",
        title="Pairs left to the classifier",
        definition="Compared pairs that the short rule leaves open.",
        unit="pairs",
    ),
    _count(
        name="novelty_classifier_calls",
        title="Pairs classified",
        definition="Different classified pairs.",
        unit="calls",
    ),
    _count(name="novelty_responses", title="Responses", definition="Responses to all prompts.", unit="responses"),
    _count(
        name="novelty_representatives",
        title="Representatives",
        definition="First responses of classes, the only ones rated.",
        unit="responses",
    ),
    _count(
        name="novelty_reward_calls",
        title="Responses rewarded",
        definition="Different representatives.",
        unit="calls",
    ),
)
