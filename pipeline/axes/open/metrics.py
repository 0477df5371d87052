"""The metrics of open-ended answers."""

from functools import partial

from pipeline.axes.metric import PAPER, PROMPT_MEAN, PROMPTS, Metric

_open = partial(
    Metric,
    axis="open",
    n=PROMPTS,
    source=f"{PAPER}, Section 4.2",
    aggregate=PROMPT_MEAN,
    undefined="prompts",
    direction="neither",
)

METRICS = (
    _open(
        name="top_p_support_size",
        title="Top-90% support size",
        definition="Tokens, most probable first, that hold 90% of the probability of the first token of an answer.",
        formula_text="fewest tokens with summed probability >= 0.9",
        unit="tokens",
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
        function="pipeline.core.language.diversity:expected_distinct",
        decimals=3,
        headline=2,
    ),
)
