"""The metrics of open-ended answers."""

from functools import partial

from pipeline.axes.metric import OURS, PAPER, PROMPT_MEAN, PROMPTS, Metric

SECTION = f"{PAPER}, Section 4.2"
DIVERSITY = "pipeline.core.language.diversity:answer_diversity"

_open = partial(
    Metric, axis="open", direction="higher", n=PROMPTS, source=OURS, aggregate=PROMPT_MEAN, undefined="prompts"
)
_unique = partial(
    _open,
    definition="Distinct answers over all samples, failures included, as expected at the common number of samples.",
    formula_text="distinct answers / samples",
    unit="share",
    source=SECTION,
    function=DIVERSITY,
    decimals=3,
)
_effective = partial(
    _open,
    definition="Size of the uniform law with the answers' entropy.",
    formula_text="exp(H)",
    unit="answers",
    source="Chao, Wang and Jost 2013",
    aggregate="median over prompts",
    function=DIVERSITY,
    decimals=1,
)

METRICS = (
    _open(
        name="top_p_support_size",
        title="Top-90% support size",
        definition="Tokens, most probable first, that hold 90% of the probability of the first token of an answer.",
        formula_text="fewest tokens with summed probability >= 0.9",
        unit="tokens",
        source=SECTION,
        function="pipeline.axes.open.open_ended:support_sizes",
        decimals=1,
        column="Support size",
        headline=1,
    ),
    _unique(name="unique_fraction", title="Unique output rate", headline=2),
    _open(
        name="answer_entropy_nats",
        title="Answer entropy",
        definition="Entropy of the answers, corrected for the number of samples.",
        formula_text="sum over answers of (X / n) sum_(k = X)^(n - 1) 1 / k, plus an estimate for unseen answers",
        unit="nats",
        source="Chao, Wang and Jost 2013",
        function="pipeline.core.language.diversity:chao_wang_jost_entropy",
        decimals=3,
        column="Entropy (nats)",
    ),
    _effective(name="effective_answers_median", title="Effective answers, median", column="Effective answers (median)"),
    _unique(
        name="unique_fraction_case_folded",
        title="Unique output rate, case folded",
        column="Unique rate, case-folded",
    ),
    _effective(
        name="effective_answers_case_folded_median",
        title="Effective answers, case folded, median",
        column="Effective, case-folded (median)",
    ),
)
