"""The metrics of open-ended answers, multiple-choice questions and NoveltyBench."""

from collections.abc import Iterator
from functools import partial

from pipeline.core.language.multiple_choice import PARSERS
from pipeline.core.language.open_ended import CASE_FOLDED, SUPPORT_THRESHOLDS
from pipeline.core.prompts.multiple_choice import LETTERS
from pipeline.metrics.metric import OURS, PAPER, PROMPT_MEAN, PROMPTS, Metric

SECTION = f"{PAPER}, Section 4.2"
NOVELTY = f"NoveltyBench (arXiv:2504.05228); {SECTION}"
CHAO = "Chao, Wang and Jost 2013"
PROMPT_MEDIAN = "median over prompts"
SUPPORT = "pipeline.core.language.open_ended:support_sizes"
DIVERSITY = "pipeline.core.language.diversity:answer_diversity"
MCQ = "pipeline.core.language.multiple_choice"

_open = partial(
    Metric,
    axis="open",
    direction="higher",
    n=PROMPTS,
    source=OURS,
    aggregate=PROMPT_MEAN,
    decimals=1,
    undefined="prompts",
)


_effective = partial(
    _open,
    definition="Size of the uniform law with the answers' entropy.",
    formula_text="exp(H)",
    unit="answers",
    source=CHAO,
    function=DIVERSITY,
)


def _support_sizes() -> Iterator[Metric]:
    """The number of first tokens that hold a probability, at every threshold and at the headline's."""
    definition = "Tokens, most probable first, that hold {} of the probability of the first token of an answer."
    formula = "fewest tokens with summed probability >= {}"
    for mass in SUPPORT_THRESHOLDS:
        yield _open(
            name=f"top_p_support_size_at_{mass:g}",
            title=f"Support size at {mass:g}",
            definition=definition.format(f"{mass:g}"),
            formula_text=formula.format(f"{mass:g}"),
            unit="tokens",
            function=SUPPORT,
        )
    headline = partial(
        _open,
        definition=definition.format("90%"),
        formula_text=formula.format("0.9"),
        unit="tokens",
        source=SECTION,
        function=SUPPORT,
    )
    yield headline(name="top_p_support_size", title="Top-90% support size", column="Support size", headline=1)
    yield headline(name="top_p_support_size_median", title="Top-90% support size, median", aggregate=PROMPT_MEDIAN)


def _diversity(suffix: str, note: str, case_folded: bool) -> Iterator[Metric]:
    """How many answers there are and how evenly they are used; ``suffix`` and ``note`` say whether case counts."""
    yield _open(
        name=f"unique_fraction{suffix}",
        title=f"Unique output rate{note}",
        definition="Distinct answers over all samples, failures included, as expected at the common number of samples.",
        formula_text="distinct answers / samples",
        unit="share",
        source=SECTION,
        function=DIVERSITY,
        decimals=3,
        column="Unique rate, case-folded" if case_folded else "",
        headline=0 if case_folded else 2,
    )
    yield _open(
        name=f"answer_entropy_nats{suffix}",
        title=f"Answer entropy{note}",
        definition="Entropy of the answers, corrected for the number of samples.",
        formula_text="sum over answers of (X / n) sum_(k = X)^(n - 1) 1 / k, plus an estimate for unseen answers",
        unit="nats",
        source=CHAO,
        function="pipeline.core.language.diversity:chao_wang_jost_entropy",
        decimals=3,
        column="" if case_folded else "Entropy (nats)",
    )
    yield _effective(name=f"effective_answers{suffix}", title=f"Effective answers{note}")
    yield _effective(
        name=f"effective_answers{suffix}_median",
        title=f"Effective answers{note}, median",
        aggregate=PROMPT_MEDIAN,
        column="Effective, case-folded (median)" if case_folded else "Effective answers (median)",
    )
    yield _open(
        name=f"effective_answers_plug_in{suffix}",
        title=f"Effective answers{note}, uncorrected",
        definition="Effective answers of the sample's own frequencies; too small, more so for few samples.",
        formula_text="exp(-sum of p log p), p = count / n",
        unit="answers",
        source="Hill 1973",
        function="pipeline.core.language.diversity:plug_in_entropy",
    )


OPEN = (
    *_support_sizes(),
    _open(
        name="first_token_entropy_nats",
        title="First-token entropy",
        definition="Entropy of the law of an answer's first token.",
        formula_text="-sum of p log p",
        unit="nats",
        function="pipeline.core.language.open_ended:law_entropy",
        decimals=3,
    ),
    *_diversity("", "", case_folded=False),
    *_diversity(CASE_FOLDED, ", case folded", case_folded=True),
)


_mcq = partial(Metric, axis="mcq", aggregate="over all questions", decimals=3, undefined="value")


def _parsed_by(parser: str, suffix: str) -> Iterator[Metric]:
    """What one parser, "strict" or "tolerant", finds; ``suffix`` ends its metrics' names."""
    strict = parser == "strict"
    note, column_note = ("", "") if strict else (f" ({parser} parser)", f", {parser}")
    found = partial(_mcq, source=SECTION if strict else OURS)
    of_parsed = partial(found, n="questions that parse", attempts=f"mcq_parse_rate{suffix}")
    yield found(
        name=f"mcq_parse_rate{suffix}",
        title=f"Parse rate{note}",
        definition=f"Share of generations that the {parser} parser accepts as a question.",
        formula_text="parsed / generations",
        unit="share",
        direction="higher",
        n="generations",
        function=f"{MCQ}:metric_rows",
        column=f"Parse rate{column_note}",
        headline=1 if strict else 0,
    )
    yield of_parsed(
        name=f"mcq_total_variation{suffix}",
        title=f"Answer position, total variation{note}",
        definition="Total variation of the right answer's position from uniform over A to D; undefined when nothing "
        "parses. The floor is exact.",
        formula_text="1/2 sum over A to D of |share - 1/4|",
        unit="probability",
        direction="lower",
        function=f"{MCQ}:total_variation",
        column=f"TV{column_note}",
        headline=2 if strict else 0,
    )
    for letter in LETTERS:
        yield of_parsed(
            name=f"mcq_share{suffix}_{letter.lower()}",
            title=f"Share of {letter}{note}",
            definition=f"Share of parsed questions with the answer {letter}; balanced at 1/4.",
            formula_text=f"questions with answer {letter} / questions that parse",
            unit="share",
            direction="neither",
            function=f"{MCQ}:metric_rows",
            column=f"{letter} is correct",
        )


MULTIPLE_CHOICE = tuple(metric for suffix, parser in PARSERS.items() for metric in _parsed_by(parser, suffix))

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
_of_run = partial(
    _novelty,
    n="1: one run",
    source=OURS,
    aggregate="over all prompts",
    function="pipeline.core.language.novelty_aggregate:call_rows",
)
_count = partial(_of_run, formula_text="count", direction="neither", decimals=0)
_saved = partial(_of_run, unit="share", direction="higher", decimals=2)

_CLASSES = "Classes of responses that say the same among ten responses to a prompt, {}."
_RATINGS = "Ratings of the first response of each class, discounted by the patience of a reader who asks on; {}."

NOVELTY_BENCH = (
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
    _saved(
        name="novelty_classifier_calls_saved",
        title="Classifier calls saved",
        definition="Share of pairs without a call.",
        formula_text="1 - classifier calls / pairs",
    ),
    _saved(
        name="novelty_reward_calls_saved",
        title="Reward calls saved",
        definition="Share of responses without a call.",
        formula_text="1 - reward calls / responses",
    ),
)

LANGUAGE = (*OPEN, *MULTIPLE_CHOICE, *NOVELTY_BENCH)
