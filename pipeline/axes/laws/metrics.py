"""The metrics of laws of one's own."""

from functools import partial

from pipeline.axes.metric import OURS, PROMPTS, Metric
from pipeline.axes.structured.metrics import W1_FORMULA, WIDTHS

_law = partial(
    Metric,
    axis="laws",
    n="valid answers",
    source=OURS,
    aggregate="mean over the prompts of a law, mean over laws; undefined where a law has none",
    undefined="laws",
    direction="lower",
    decimals=3,
)
_exact = partial(_law, n=PROMPTS, function="pipeline.axes.laws.score:exact_figures")

METRICS = (
    _law(
        name="law_total_variation",
        title="Total variation of answers",
        definition="Total variation of the valid answers' classes from the law, of categories. The floor is simulated "
        "from the law at as many valid answers.",
        formula_text="1/2 sum over classes of |share - probability|",
        unit="probability",
        function="pipeline.core.statistics.law_check:total_variations",
        column="TV",
        headline=1,
    ),
    _law(
        name="law_wasserstein_1_normalised",
        title="Normalised W1 of answers",
        definition="W1 of the valid answers from the law, of numbers, as in structured sampling.",
        formula_text=W1_FORMULA,
        unit=WIDTHS,
        function="pipeline.axes.structured.wasserstein:evaluate_prompt",
        column="W1",
        headline=2,
    ),
    _law(
        name="law_valid_rate",
        title="Valid answers to laws of one's own",
        definition="Share of answers that are one of the law's strings, or a number in its support.",
        formula_text="valid / answers",
        unit="share",
        direction="higher",
        n="answers",
        aggregate="over all answers",
        undefined="value",
        function="pipeline.axes.laws.law_metrics:evaluate_law",
        column="Valid",
        headline=3,
    ),
    _exact(
        name="law_exact_total_variation",
        title="Exact total variation by class",
        definition="Total variation of the model's law over classes from the target, all other answers being one more "
        "class; not sampled.",
        formula_text="1/2 (sum over classes of |model - probability| + mass elsewhere)",
        unit="probability",
        column="Exact TV",
        headline=4,
    ),
    _exact(
        name="law_exact_wasserstein_1_normalised",
        title="Exact W1 on the strings",
        definition="W1 of the model's law, given that the answer is one of the law's strings, from the law.",
        formula_text="integral of |F_model - F| / (Q95 - Q05)",
        unit=WIDTHS,
        column="Exact W1",
    ),
)
