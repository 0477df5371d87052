"""The metrics of laws of one's own."""

from functools import partial

from pipeline.axes.metric import OURS, PROMPTS, Metric
from pipeline.axes.structured.metrics import WIDTHS

LAW_METRICS = "pipeline.axes.laws.law_metrics"
LAW_MEAN = "mean over the prompts of a law, mean over laws; undefined where a law has none"

_law = partial(
    Metric, axis="laws", n=PROMPTS, source=OURS, aggregate=LAW_MEAN, undefined="laws", direction="lower", decimals=3
)

METRICS = (
    _law(
        name="law_total_variation",
        title="Total variation of answers",
        definition="Total variation of the valid answers' classes from the law, of categories. The floor is simulated "
        "from the law at as many valid answers.",
        formula_text="1/2 sum over classes of |share - probability|",
        unit="probability",
        n="valid answers",
        function="pipeline.axes.laws.categories:total_variations",
        column="TV",
        headline=1,
    ),
    _law(
        name="law_wasserstein_1_normalised",
        title="Normalised W1 of answers",
        definition="W1 of the valid answers from the law, of numbers, as in structured sampling.",
        formula_text="mean over i of |x_(i) - F^-1((i - 1/2) / n)| / (Q95 - Q05)",
        unit=WIDTHS,
        n="valid answers",
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
        function=f"{LAW_METRICS}:evaluate_law",
        column="Valid",
        headline=3,
    ),
    _law(
        name="law_exact_total_variation",
        title="Exact total variation by class",
        definition="Total variation of the model's law over classes from the target, all other answers being one more "
        "class; not sampled.",
        formula_text="1/2 (sum over classes of |model - probability| + mass elsewhere)",
        unit="probability",
        function=f"{LAW_METRICS}:exact_figures",
        column="Exact TV",
        headline=4,
    ),
    _law(
        name="law_exact_wasserstein_1_normalised",
        title="Exact W1 on the strings",
        definition="W1 of the model's law, given that the answer is one of the law's strings, from the law.",
        formula_text="integral of |F_model - F| / (Q95 - Q05)",
        unit=WIDTHS,
        function=f"{LAW_METRICS}:exact_figures",
        column="Exact W1",
    ),
    _law(
        name="law_exact_mass",
        title="Exact mass on the strings",
        definition="The model's probability of one of the law's strings as the tokenizer writes them; not sampled.",
        formula_text="sum over strings of model(string)",
        unit="probability",
        direction="higher",
        function=f"{LAW_METRICS}:exact_figures",
        column="Mass",
    ),
    _law(
        name="law_exact_sequence_kl_nats",
        title="Sequence KL, laws of one's own",
        definition="KL of the model's law over token sequences from the target on the trie.",
        formula_text="sum over strings y of q(y) log(q(y) / model(y))",
        unit="nats",
        function=f"{LAW_METRICS}:exact_figures",
        column="KL (nats)",
    ),
    _law(
        name="law_chi_square_rejected_share",
        title="Laws rejected by chi-square",
        definition="Share of prompts for categories whose valid answers are shown not to follow the law: Pearson's "
        "test, adjusted by Holm over the split, at 0.05.",
        formula_text="prompts with adjusted p <= 0.05 / prompts tested",
        unit="share",
        n="prompts tested",
        undefined="prompts",
        aggregate="over all prompts",
        function="pipeline.axes.laws.categories:evaluate_categories",
        column="Rejected",
    ),
)
