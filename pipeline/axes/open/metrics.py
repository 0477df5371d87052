"""The metrics of open-ended answers."""

from functools import partial

from pipeline.axes.metric import PAPER, PROMPT_MEAN, PROMPTS, Metric

DIVERSITY = "pipeline.core.language.diversity:answer_diversity"
_open = partial(Metric, axis="open", n=PROMPTS, source=f"{PAPER}, Section 4.2", undefined="prompts", direction="higher")

METRICS = (
    _open(
        name="top_p_support_size",
        title="Top-90% support size",
        definition="Tokens, most probable first, that hold 90% of the probability of the first token of an answer.",
        formula_text="fewest tokens with summed probability >= 0.9",
        unit="tokens",
        aggregate=PROMPT_MEAN,
        function="pipeline.axes.open.open_ended:support_size",
        decimals=1,
        column="Support size",
        headline=1,
    ),
    _open(
        name="unique_fraction",
        title="Unique output rate",
        definition="Distinct answers over all samples, failures included, as expected at the common number of samples.",
        formula_text="distinct answers / samples",
        unit="share",
        aggregate=PROMPT_MEAN,
        function=DIVERSITY,
        decimals=3,
        headline=2,
    ),
    _open(
        name="effective_answers_median",
        title="Effective answers, median",
        definition="Size of the uniform law with the answers' entropy, corrected for the number of samples.",
        formula_text="exp(H)",
        unit="answers",
        source="Chao, Wang and Jost 2013",
        aggregate="median over prompts",
        function=DIVERSITY,
        decimals=1,
        column="Effective answers (median)",
    ),
)
