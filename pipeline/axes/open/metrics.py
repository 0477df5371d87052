"""The metrics of open-ended answers."""

from collections.abc import Iterator
from functools import partial

from pipeline.axes.metric import OURS, PAPER, PROMPT_MEAN, PROMPTS, Metric
from pipeline.axes.open.open_ended import CASE_FOLDED, SUPPORT_SIZES

SECTION = f"{PAPER}, Section 4.2"
CHAO = "Chao, Wang and Jost 2013"
PROMPT_MEDIAN = "median over prompts"
SUPPORT = "pipeline.axes.open.open_ended:support_sizes"
DIVERSITY = "pipeline.core.language.diversity:answer_diversity"


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
    for name, mass in SUPPORT_SIZES.items():
        yield _open(
            name=name,
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


METRICS = (
    *_support_sizes(),
    _open(
        name="first_token_entropy_nats",
        title="First-token entropy",
        definition="Entropy of the law of an answer's first token.",
        formula_text="-sum of p log p",
        unit="nats",
        function="pipeline.axes.open.open_ended:law_entropy",
        decimals=3,
    ),
    *_diversity("", "", case_folded=False),
    *_diversity(CASE_FOLDED, ", case folded", case_folded=True),
)
