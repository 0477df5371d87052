"""The metrics of the model's own probabilities on structured prompts."""

from functools import partial

from pipeline.axes.metric import FAMILY_MEAN, FAMILY_MEDIAN, OURS, PAPER, PROMPTS, Metric

WIDTHS = "Q95 - Q05 of the target"
EXACT_W1 = "integral of |F_model - F| over the window, / (Q95 - Q05)"
DIVERGENCE = "pipeline.core.training.objectives:forward_kl"
NUMBER_LAW = "pipeline.core.exact.number_law:bound_number_law"
TRIE_LAW = "pipeline.core.exact.trie_law:exact_law"

_exact = partial(Metric, axis="structured", n=PROMPTS, aggregate=FAMILY_MEDIAN, undefined="families", direction="lower")

EXACT = (
    _exact(
        name="logit_kl_nats",
        title="Logit KL",
        definition=(
            "Forward KL of the model's next-token law from the trie's target, normalised over the full vocabulary, "
            "mean over the prefixes of sampled paths. The grid keeps few decimals, so it cannot reach 0."
        ),
        formula_text="mean over prefixes p of sum over v of q(v|p) log(q(v|p) / model(v|p))",
        unit="nats",
        source=f"{PAPER}, Eq. 2, Section 4.2 and Tables 6 and 7",
        aggregate=FAMILY_MEAN,
        function=DIVERGENCE,
        decimals=3,
        column="Logit KL (nats)",
        headline=3,
    ),
    _exact(
        name="logit_kl_family_median_nats",
        title="Logit KL, family median",
        definition="Logit KL aggregated as W1 is: one family that is far off does not move it.",
        formula_text="as Logit KL",
        unit="nats",
        source=OURS,
        function=DIVERGENCE,
        decimals=3,
    ),
    _exact(
        name="logit_kl_rounded_law_nats",
        title="Logit KL, every decimal",
        definition="Logit KL against the law rounded to five decimals, none left out; can reach 0.",
        formula_text="as Logit KL, q from the rounded law",
        unit="nats",
        source=OURS,
        function=DIVERGENCE,
        decimals=3,
        column="Logit KL, every decimal (nats)",
    ),
    _exact(
        name="exact_wasserstein_1_normalised",
        title="Exact W1",
        definition="Middle of the certified bounds of the W1 of the model's whole law over plain decimals.",
        formula_text=EXACT_W1,
        unit=WIDTHS,
        source=OURS,
        function=NUMBER_LAW,
        decimals=4,
    ),
    _exact(
        name="exact_wasserstein_1_normalised_low",
        title="Exact W1, lower bound",
        definition="Certified lower bound, whatever the digits that were not expanded.",
        formula_text=f"lower bound of {EXACT_W1}",
        unit=WIDTHS,
        source=OURS,
        function=NUMBER_LAW,
        decimals=4,
    ),
    _exact(
        name="exact_wasserstein_1_normalised_high",
        title="Exact W1, upper bound",
        definition="Certified upper bound, whatever the digits that were not expanded.",
        formula_text=f"upper bound of {EXACT_W1}",
        unit=WIDTHS,
        source=OURS,
        function=NUMBER_LAW,
        decimals=4,
    ),
    _exact(
        name="exact_support_rate",
        title="Exact support rate",
        definition="Middle of the bounds of the probability that a plain decimal lies in the support.",
        formula_text="P(value in support | plain decimal)",
        unit="probability",
        source=OURS,
        direction="higher",
        function=NUMBER_LAW,
        decimals=3,
    ),
    _exact(
        name="exact_valid_rate_low",
        title="Exact valid rate, lower bound",
        definition="Probability of valid answers that were expanded to their end.",
        formula_text="lower bound of P(valid)",
        unit="probability",
        source=OURS,
        direction="higher",
        function=NUMBER_LAW,
        decimals=3,
    ),
    _exact(
        name="exact_valid_rate_high",
        title="Exact valid rate, upper bound",
        definition="One less the probability of answers seen to be invalid.",
        formula_text="upper bound of P(valid)",
        unit="probability",
        source=OURS,
        direction="higher",
        function=NUMBER_LAW,
        decimals=3,
    ),
    _exact(
        name="exact_logit_kl_nats",
        title="Exact logit KL",
        definition="Logit KL in expectation over all paths of the trie instead of sampled ones.",
        formula_text="sum over strings y of q(y) times the mean KL over the prefixes of y",
        unit="nats",
        source=f"{PAPER}, Eq. 2, without sampling",
        function=TRIE_LAW,
        decimals=3,
    ),
    _exact(
        name="exact_sequence_kl_nats",
        title="Sequence KL",
        definition="KL of the model's law over whole strings from the target on the trie.",
        formula_text="sum over strings y of q(y) log(q(y) / model(y))",
        unit="nats",
        source=OURS,
        function=TRIE_LAW,
        decimals=3,
    ),
    _exact(
        name="exact_total_variation",
        title="Total variation over strings",
        definition="Total variation of the model's law over strings from the target.",
        formula_text="1/2 sum over y of |model(y) - q(y)|, strings outside the trie included",
        unit="probability",
        source=OURS,
        function=TRIE_LAW,
        decimals=3,
    ),
    _exact(
        name="exact_constrained_wasserstein_1_normalised",
        title="Exact W1, constrained decoding",
        definition="W1 of the law of decoding restricted to the trie, without sampling.",
        formula_text="integral of |F_constrained - F_q| dx / (Q95 - Q05)",
        unit=WIDTHS,
        source=OURS,
        function=TRIE_LAW,
        decimals=4,
    ),
    _exact(
        name="exact_constrained_total_variation",
        title="Total variation, constrained decoding",
        definition="Total variation of the law of constrained decoding from the target.",
        formula_text="1/2 sum over y of |constrained(y) - q(y)|",
        unit="probability",
        source=OURS,
        function=TRIE_LAW,
        decimals=3,
    ),
)
