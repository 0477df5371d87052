"""Definitions of the metrics of structured sampling."""

from pipeline.core.structured.tails import LEVELS
from pipeline.metrics.definition import FAMILY_MEDIAN, OURS, PAPER, PROMPT_MEAN, Definition

VALID, PROMPTS, PAIRS = "valid answers", "prompts with a value", "pairs of prompts with a common sample index"
W1_FORMULA = "mean over i of |x_(i) - Q((i - 0.5) / N)| / (Q95 - Q05)"
EQ5 = f"{PAPER}, Eq. 5 and Section 4.2"
PIT_SOURCE = (
    "Dawid 1984; Diebold, Gunther and Tay 1998; randomised for discrete laws: Brockwell 2007, Czado, Gneiting and "
    "Held 2009"
)


def _by_family(
    title: str, definition: str, formula: str, unit: str, n: str, source: str, direction: str = "lower"
) -> Definition:
    return Definition(title, definition, formula, unit, direction, n, source, FAMILY_MEDIAN)


SAMPLED = {
    "wasserstein_1_normalised": _by_family(
        "W1 (normalised)",
        "Mean distance of the ordered valid answers from the target's mid-quantiles, in widths of the target. For a "
        "law without a mean (Cauchy) its expectation is infinite, so single answers decide it.",
        W1_FORMULA,
        "Q95 - Q05 of the target",
        VALID,
        EQ5,
    ),
    "wasserstein_1_window_normalised": _by_family(
        "W1 in the window",
        "The same with answers and target clipped to the target's 0.001 and 0.999 quantiles.",
        "W1 of clip(x, Q(.001), Q(.999)) from clip(Q, Q(.001), Q(.999)), / (Q95 - Q05)",
        "Q95 - Q05 of the target",
        VALID,
        OURS,
    ),
    "wasserstein_1_normalised_at_budget": _by_family(
        "W1 at equal cost",
        "W1 of the valid answers within the first tokens of each prompt's generations, as many tokens for every "
        "condition that has generated so many; of the others all answers count.",
        W1_FORMULA,
        "Q95 - Q05 of the target",
        "valid answers within the budget",
        OURS,
    ),
    "valid_rate": Definition(
        "Valid rate",
        "Share of answers that are valid: on numbers one finite decimal or scientific literal in the law's support "
        "(whole for an integer law), on open-ended requests a non-empty answer.",
        "valid answers / answers",
        "share",
        "higher",
        "answers (open-ended: prompts)",
        f"{PAPER}, Section 4.2",
        "over all answers of the split; open-ended: mean over prompts",
    ),
    "valid_rate_at_budget": Definition(
        "Valid rate at equal cost",
        "Valid rate within the token budget of each prompt.",
        "valid answers / answers, within the budget",
        "share",
        "higher",
        PROMPTS,
        OURS,
        PROMPT_MEAN,
    ),
    "answers_at_budget": Definition(
        "Answers at equal cost",
        "Answers, valid or not, that a prompt's first tokens pay for.",
        "answers of the generations whose tokens sum to at most the budget",
        "answers per prompt",
        "higher",
        PROMPTS,
        OURS,
        PROMPT_MEAN,
    ),
    "tokens_per_answer": Definition(
        "Tokens per valid answer",
        "Generated tokens, reasoning and failures included, over valid answers.",
        "generated tokens / valid answers",
        "tokens",
        "lower",
        VALID,
        OURS,
        "ratio of the split's sums",
    ),
    "pit_wasserstein_1": _by_family(
        "W1 on the PIT scale",
        "W1 after every valid answer is replaced by its probability integral transform u = F(x), which is uniform for "
        "a perfect sampler: finite for every family, at most 1/2. Within a value's probability (integer laws), or "
        "what rounding in print leaves open (5% of the law at most), u is drawn uniformly.",
        "mean over i of |u_(i) - (i - 0.5) / N|",
        "probability",
        VALID,
        f"Eq. 5 on u; {PIT_SOURCE}",
    ),
    "pit_wasserstein_1_all_answers": _by_family(
        "W1 on the PIT scale, invalid answers counted",
        "As W1 on the PIT scale over all answers: an invalid one counts with distance 1, more than any valid one "
        "can. Between 0 and 1, defined without a valid answer.",
        "v * mean |u_(i) - (i - 0.5) / N| + (1 - v), v = valid rate",
        "probability",
        "answers",
        OURS,
    ),
    "pit_ks": _by_family(
        "KS on the PIT scale",
        "Largest difference of the distribution function of the PITs from the uniform one.",
        "sup over u of |F_N(u) - u|",
        "probability",
        VALID,
        f"Kolmogorov 1933; {PIT_SOURCE}",
    ),
    "energy_distance_normalised": _by_family(
        "Energy distance",
        "Root of twice the integrated squared difference of distribution functions, over the root of the target's "
        "width; finite for Cauchy, too.",
        "sqrt(2 * integral of (F_N(x) - F(x))^2 dx / (Q95 - Q05))",
        "1",
        VALID,
        "Szekely and Rizzo 2013; scipy.stats.energy_distance",
    ),
    "pit_rejected_share": Definition(
        "Prompts shown not to be calibrated (KS)",
        "Share of prompts whose PITs a Kolmogorov-Smirnov test rejects as uniform at 5%, after Holm's correction over "
        "the split. It grows with N: it says what can be shown, not how far off the answers are.",
        "prompts with adjusted p <= 0.05 / prompts tested",
        "share",
        "lower",
        "prompts tested",
        f"Holm 1979; {PIT_SOURCE}",
        "over prompts",
    ),
    "pit_chi_square_rejected_share": Definition(
        "Prompts shown not to be calibrated (chi-square)",
        "The same by Pearson's chi-square test over 20 bins, which sees spikes; not tested with fewer than 100 valid "
        "answers.",
        "prompts with adjusted p <= 0.05 / prompts tested",
        "share",
        "lower",
        "prompts tested",
        f"Pearson 1900; Holm 1979; {PIT_SOURCE}",
        "over prompts",
    ),
    "stream_correlation": Definition(
        "Correlation across prompts by sample index",
        "Mean correlation of two prompts' PITs at the same sample index: 0 with independent streams, near 1 where "
        "all prompts share one seed stream. Interval: plus and minus 1.96 standard deviations under independence.",
        "mean over pairs p < q and indices i of z_pi * z_qi, z = standardised PIT",
        "1",
        "neither",
        PAIRS,
        OURS,
        "one number per split",
    ),
    "stream_correlation_p": Definition(
        "p-value of independent streams",
        "Share of 999 shuffles of each prompt's samples whose correlation is at least as far from 0. One in twenty "
        "splits and conditions is below 0.05 by chance: samples of another seed tell chance from a shared stream.",
        "(1 + shuffles with |r| >= |observed|) / 1000",
        "probability",
        "neither",
        PAIRS,
        "Phipson and Smyth 2010",
        "one number per split",
    ),
}


def _tails() -> dict[str, Definition]:
    found = {}
    for level in LEVELS:
        found[f"quantile_error_at_{level:g}"] = _by_family(
            f"Error of the {100 * level:g}% quantile",
            f"Distance of the sample's {100 * level:g}% quantile from the target's, in widths of the target. Beyond "
            "1/N the sample quantile is the extreme answer: read it against the floor.",
            f"|x_(ceil({level:g} N)) - Q({level:g})| / (Q95 - Q05)",
            "Q95 - Q05 of the target",
            VALID,
            "Hyndman and Fan 1996, definition 1",
        )
        found[f"quantile_level_error_at_{level:g}"] = _by_family(
            f"Level error of the {100 * level:g}% quantile",
            f"How far the target's probability below the sample's {100 * level:g}% quantile is from {level:g}.",
            f"|u_(ceil({level:g} N)) - {level:g}|",
            "probability",
            VALID,
            "Hyndman and Fan 1996, definition 1",
        )
    return found


EXACT_W1 = "integral of |F_model - F| over the window, / (Q95 - Q05)"
EXACT = {
    "logit_kl_nats": _by_family(
        "Logit KL",
        "Forward KL of the model's next-token law from the trie's target, normalised over the full vocabulary, mean "
        "over the prefixes of sampled paths. The grid keeps few decimals, so it cannot reach 0.",
        "mean over prefixes p of sum over v of q(v|p) log(q(v|p) / model(v|p))",
        "nats",
        PROMPTS,
        f"{PAPER}, Eq. 2 and Section 4.2",
    ),
    "logit_kl_rounded_law_nats": _by_family(
        "Logit KL, every decimal",
        "Logit KL against the law rounded to five decimals, none left out; can reach 0.",
        "as Logit KL, q from the rounded law",
        "nats",
        PROMPTS,
        OURS,
    ),
    "exact_wasserstein_1_normalised": _by_family(
        "Exact W1",
        "Middle of the certified bounds of the W1 of the model's whole law over plain decimals.",
        EXACT_W1,
        "Q95 - Q05 of the target",
        PROMPTS,
        OURS,
    ),
    "exact_wasserstein_1_normalised_low": _by_family(
        "Exact W1, lower bound",
        "Certified lower bound, whatever the digits that were not expanded.",
        f"lower bound of {EXACT_W1}",
        "Q95 - Q05 of the target",
        PROMPTS,
        OURS,
    ),
    "exact_wasserstein_1_normalised_high": _by_family(
        "Exact W1, upper bound",
        "Certified upper bound, whatever the digits that were not expanded.",
        f"upper bound of {EXACT_W1}",
        "Q95 - Q05 of the target",
        PROMPTS,
        OURS,
    ),
    "exact_support_rate": _by_family(
        "Exact support rate",
        "Middle of the bounds of the probability that a plain decimal lies in the support.",
        "P(value in support | plain decimal)",
        "probability",
        PROMPTS,
        OURS,
        "higher",
    ),
    "exact_valid_rate_low": _by_family(
        "Exact valid rate, lower bound",
        "Probability of valid answers that were expanded to their end.",
        "lower bound of P(valid)",
        "probability",
        PROMPTS,
        OURS,
        "higher",
    ),
    "exact_valid_rate_high": _by_family(
        "Exact valid rate, upper bound",
        "One less the probability of answers seen to be invalid.",
        "upper bound of P(valid)",
        "probability",
        PROMPTS,
        OURS,
        "higher",
    ),
    "exact_logit_kl_nats": _by_family(
        "Exact logit KL",
        "Logit KL in expectation over all paths of the trie instead of sampled ones.",
        "sum over strings y of q(y) times the mean KL over the prefixes of y",
        "nats",
        PROMPTS,
        f"{PAPER}, Eq. 2, without sampling",
    ),
    "exact_sequence_kl_nats": _by_family(
        "Sequence KL",
        "KL of the model's law over whole strings from the target on the trie.",
        "sum over strings y of q(y) log(q(y) / model(y))",
        "nats",
        PROMPTS,
        OURS,
    ),
    "exact_total_variation": _by_family(
        "Total variation over strings",
        "Total variation of the model's law over strings from the target.",
        "1/2 sum over y of |model(y) - q(y)|, strings outside the trie included",
        "probability",
        PROMPTS,
        OURS,
    ),
    "exact_constrained_wasserstein_1_normalised": _by_family(
        "Exact W1, constrained decoding",
        "W1 of the law of decoding restricted to the trie, without sampling.",
        "integral of |F_constrained - F_q| dx / (Q95 - Q05)",
        "Q95 - Q05 of the target",
        PROMPTS,
        OURS,
    ),
    "exact_constrained_total_variation": _by_family(
        "Total variation, constrained decoding",
        "Total variation of the law of constrained decoding from the target.",
        "1/2 sum over y of |constrained(y) - q(y)|",
        "probability",
        PROMPTS,
        OURS,
    ),
}

STRUCTURED: dict[str, Definition] = {**SAMPLED, **_tails(), **EXACT}
