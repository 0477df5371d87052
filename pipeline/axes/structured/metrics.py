"""The metrics of samples of numbers, with those of the model's own probabilities."""

from functools import partial

from pipeline.axes.metric import FAMILY_MEAN, FAMILY_MEDIAN, OURS, PAPER, PROMPT_MEAN, PROMPTS, Metric
from pipeline.axes.structured.tails import LEVELS

WIDTHS = "Q95 - Q05 of the target"
EXACT_W1 = "integral of |F_model - F| over the window, / (Q95 - Q05)"
DIVERGENCE = "pipeline.core.training.objectives:forward_kl"
NUMBER_LAW = "pipeline.core.exact.number_law:bound_number_law"
VALID, PAIRS = "valid answers", "pairs of prompts with a common sample index"
W1_FORMULA = "mean over i of |x_(i) - Q((i - 0.5) / N)| / (Q95 - Q05)"
RELEASED = f"{PAPER}, released code"
EQ5 = f"{PAPER}, Eq. 5 and Section 4.2"
PIT_SOURCE = (
    "Dawid 1984; Diebold, Gunther and Tay 1998; randomised for discrete laws: Brockwell 2007, Czado, Gneiting and "
    "Held 2009"
)
SAMPLES = "pipeline.axes.structured.wasserstein:evaluate_prompt"
BUDGET = "pipeline.axes.structured.wasserstein:within_budget"
SPLIT = "pipeline.axes.structured.aggregate:summaries"
PIT = "pipeline.axes.structured.pit"
STREAMS = "pipeline.axes.structured.streams:stream_correlation"


_by_family = partial(
    Metric, axis="structured", aggregate=FAMILY_MEDIAN, undefined="families", direction="lower", decimals=4
)
_of_all_prompts = partial(Metric, axis="structured", undefined="prompts")
_at_budget = partial(
    _of_all_prompts, n=PROMPTS, source=OURS, aggregate=PROMPT_MEAN, function=BUDGET, direction="higher"
)
_rejected = partial(
    _of_all_prompts,
    formula_text="prompts with adjusted p <= 0.05 / prompts tested",
    unit="share",
    direction="lower",
    n="prompts tested",
    aggregate="over prompts",
    function=f"{PIT}:uniformity_tests",
    decimals=2,
)
_streams = partial(
    _of_all_prompts,
    direction="neither",
    n=PAIRS,
    aggregate="one number per split",
    function=STREAMS,
    decimals=3,
    undefined="splits",
)

SAMPLED = (
    _by_family(
        name="wasserstein_1_normalised",
        title="W1 (normalised)",
        definition=(
            "Mean distance of the ordered valid answers from the target's mid-quantiles, in widths of the target. For "
            "a law without a mean (Cauchy) its expectation is infinite, so single answers decide it."
        ),
        formula_text=W1_FORMULA,
        unit=WIDTHS,
        n=VALID,
        source=EQ5,
        function=SAMPLES,
        headline=1,
    ),
    _of_all_prompts(
        name="wasserstein_1_normalised_prompt_median",
        title="W1 (normalised), median over a family's prompts",
        definition=(
            "Of each family by itself: the median of its prompts' normalised W1, which one prompt far off does not "
            "decide. With a single prompt it is that prompt's."
        ),
        formula_text=W1_FORMULA,
        unit=WIDTHS,
        direction="lower",
        n=VALID,
        source=f"{PAPER}, Figures 4 and 7",
        aggregate="median over the finite values within each family; none across families",
        function=SAMPLES,
        decimals=4,
    ),
    _by_family(
        name="wasserstein_1_window_normalised",
        title="W1 in the window",
        definition="The same with answers and target clipped to the target's 0.001 and 0.999 quantiles.",
        formula_text="W1 of clip(x, Q(.001), Q(.999)) from clip(Q, Q(.001), Q(.999)), / (Q95 - Q05)",
        unit=WIDTHS,
        n=VALID,
        source=OURS,
        function=SAMPLES,
    ),
    _by_family(
        name="wasserstein_1_normalised_at_budget",
        title="W1 at equal cost",
        definition=(
            "W1 of the valid answers within the first tokens of each prompt's generations, as many tokens for every "
            "condition that has generated so many; of the others all answers count."
        ),
        formula_text=W1_FORMULA,
        unit=WIDTHS,
        n="valid answers within the budget",
        source=OURS,
        function=BUDGET,
        column="W1 at the budget",
    ),
    _by_family(
        name="wasserstein_1_family_mean",
        title="W1 in the law's own unit, mean over families",
        definition=(
            "W1 that is not divided by the target's width, averaged over families: what the paper's released code "
            "summarises. Families with wide or heavy tails decide it."
        ),
        formula_text="mean over i of |x_(i) - Q((i - 0.5) / N)|",
        unit="that of the numbers",
        n=PROMPTS,
        source=RELEASED,
        aggregate=FAMILY_MEAN,
        function=SAMPLES,
    ),
    _of_all_prompts(
        name="valid_rate",
        title="Valid rate",
        definition=(
            "Share of answers that are valid: on numbers one finite decimal or scientific literal in the law's support "
            "(whole for an integer law), on open-ended requests a non-empty answer."
        ),
        formula_text="valid answers / answers",
        unit="share",
        direction="higher",
        n="answers (open-ended: prompts)",
        source=f"{PAPER}, Section 4.2",
        aggregate="over all answers of the split; open-ended: mean over prompts",
        function=SPLIT,
        decimals=3,
        headline=4,
    ),
    _at_budget(
        name="valid_rate_at_budget",
        title="Valid rate at equal cost",
        definition="Valid rate within the token budget of each prompt.",
        formula_text="valid answers / answers, within the budget",
        unit="share",
        decimals=3,
        column="Valid rate",
    ),
    _at_budget(
        name="answers_at_budget",
        title="Answers at equal cost",
        definition="Answers, valid or not, that a prompt's first tokens pay for.",
        formula_text="answers of the generations whose tokens sum to at most the budget",
        unit="answers per prompt",
        decimals=1,
        column="Answers per prompt",
    ),
    _of_all_prompts(
        name="tokens_per_answer",
        title="Tokens per valid answer",
        definition="Generated tokens, reasoning and failures included, over valid answers.",
        formula_text="generated tokens / valid answers",
        unit="tokens",
        direction="lower",
        n=VALID,
        source=OURS,
        aggregate="ratio of the split's sums",
        function=SPLIT,
        decimals=1,
    ),
    _by_family(
        name="pit_wasserstein_1",
        title="W1 on the PIT scale",
        definition=(
            "W1 after every valid answer is replaced by its probability integral transform u = F(x), which is uniform "
            "for a perfect sampler: finite for every family, at most 1/2. Within a value's probability (integer laws), "
            "or what rounding in print leaves open (5% of the law at most), u is drawn uniformly."
        ),
        formula_text="mean over i of |u_(i) - (i - 0.5) / N|",
        unit="probability",
        n=VALID,
        source=f"Eq. 5 on u; {PIT_SOURCE}",
        function=f"{PIT}:pit_wasserstein_1",
        column="W1 (PIT)",
    ),
    _by_family(
        name="pit_wasserstein_1_all_answers",
        title="W1 on the PIT scale, invalid answers counted",
        definition=(
            "As W1 on the PIT scale over all answers: an invalid one counts with distance 1, more than any valid one "
            "can. Between 0 and 1, defined without a valid answer."
        ),
        formula_text="v * mean |u_(i) - (i - 0.5) / N| + (1 - v), v = valid rate",
        unit="probability",
        n="answers",
        source=OURS,
        function=f"{PIT}:count_invalid_as_one",
        column="W1 (PIT), invalid counted",
        headline=2,
    ),
    _by_family(
        name="pit_ks",
        title="KS on the PIT scale",
        definition="Largest difference of the distribution function of the PITs from the uniform one.",
        formula_text="sup over u of |F_N(u) - u|",
        unit="probability",
        n=VALID,
        source=f"Kolmogorov 1933; {PIT_SOURCE}",
        function=f"{PIT}:pit_ks",
        column="KS (PIT)",
    ),
    _by_family(
        name="energy_distance_normalised",
        title="Energy distance",
        definition=(
            "Root of twice the integrated squared difference of distribution functions, over the root of the target's "
            "width; finite for Cauchy, too."
        ),
        formula_text="sqrt(2 * integral of (F_N(x) - F(x))^2 dx / (Q95 - Q05))",
        unit="1",
        n=VALID,
        source="Szekely and Rizzo 2013; scipy.stats.energy_distance",
        function="pipeline.axes.structured.energy:EnergyReference.distances",
    ),
    _rejected(
        name="pit_rejected_share",
        title="Prompts shown not to be calibrated (KS)",
        definition=(
            "Share of prompts whose PITs a Kolmogorov-Smirnov test rejects as uniform at 5%, after Holm's correction "
            "over the split. It grows with N: it says what can be shown, not how far off the answers are."
        ),
        source=f"Holm 1979; {PIT_SOURCE}",
        column="Rejected (KS)",
    ),
    _rejected(
        name="pit_chi_square_rejected_share",
        title="Prompts shown not to be calibrated (chi-square)",
        definition=(
            "The same by Pearson's chi-square test over 20 bins, which sees spikes; not tested with fewer than 100 "
            "valid answers."
        ),
        source=f"Pearson 1900; Holm 1979; {PIT_SOURCE}",
        column="Rejected (chi-square)",
    ),
    _streams(
        name="stream_correlation",
        title="Correlation across prompts by sample index",
        definition=(
            "Mean correlation of two prompts' PITs at the same sample index: 0 with independent streams, near 1 where "
            "all prompts share one seed stream. Interval: plus and minus 1.96 standard deviations under independence."
        ),
        formula_text="mean over pairs p < q and indices i of z_pi * z_qi, z = standardised PIT",
        unit="1",
        source=OURS,
        column="Correlation",
    ),
    _streams(
        name="stream_correlation_p",
        title="p-value of independent streams",
        definition=(
            "Share of 999 shuffles of each prompt's samples whose correlation is at least as far from 0. One in twenty "
            "splits and conditions is below 0.05 by chance: samples of another seed tell chance from a shared stream."
        ),
        formula_text="(1 + shuffles with |r| >= |observed|) / 1000",
        unit="probability",
        source="Phipson and Smyth 2010",
        column="p",
    ),
)


def _quantile_error(level: float) -> Metric:
    """Error of the sample's quantile at a level, in widths of the target."""
    percent = f"{100 * level:g}%"
    return _by_family(
        name=f"quantile_error_at_{level:g}",
        title=f"Error of the {percent} quantile",
        definition=(
            f"Distance of the sample's {percent} quantile from the target's, in widths of the target. Beyond "
            "1/N the sample quantile is the extreme answer: read it against the floor."
        ),
        formula_text=f"|x_(ceil({level:g} N)) - Q({level:g})| / (Q95 - Q05)",
        unit=WIDTHS,
        n=VALID,
        source="Hyndman and Fan 1996, definition 1",
        function="pipeline.axes.structured.tails:quantile_errors",
        decimals=3,
        column=percent,
    )


_exact = partial(_by_family, n=PROMPTS, source=OURS, function=NUMBER_LAW, unit=WIDTHS)
_logit_kl = partial(_exact, unit="nats", function=DIVERGENCE, decimals=3)

EXACT = (
    _logit_kl(
        name="logit_kl_nats",
        title="Logit KL",
        definition=(
            "Forward KL of the model's next-token law from the trie's target, normalised over the full vocabulary, "
            "mean over the prefixes of sampled paths. The grid keeps few decimals, so it cannot reach 0."
        ),
        formula_text="mean over prefixes p of sum over v of q(v|p) log(q(v|p) / model(v|p))",
        source=f"{PAPER}, Eq. 2, Section 4.2 and Tables 6 and 7",
        aggregate=FAMILY_MEAN,
        column="Logit KL (nats)",
        headline=3,
    ),
    _logit_kl(
        name="logit_kl_family_median_nats",
        title="Logit KL, family median",
        definition="Logit KL aggregated as W1 is: one family that is far off does not move it.",
        formula_text="as Logit KL",
    ),
    _logit_kl(
        name="logit_kl_rounded_law_nats",
        title="Logit KL, every decimal",
        definition="Logit KL against the law rounded to five decimals, none left out; can reach 0.",
        formula_text="as Logit KL, q from the rounded law",
        column="Logit KL, every decimal (nats)",
    ),
    _exact(
        name="exact_wasserstein_1_normalised",
        title="Exact W1",
        definition="Middle of the certified bounds of the W1 of the model's whole law over plain decimals.",
        formula_text=EXACT_W1,
    ),
    _exact(
        name="exact_wasserstein_1_normalised_low",
        title="Exact W1, lower bound",
        definition="Certified lower bound, whatever the digits that were not expanded.",
        formula_text=f"lower bound of {EXACT_W1}",
    ),
    _exact(
        name="exact_wasserstein_1_normalised_high",
        title="Exact W1, upper bound",
        definition="Certified upper bound, whatever the digits that were not expanded.",
        formula_text=f"upper bound of {EXACT_W1}",
    ),
    _exact(
        name="exact_support_rate",
        title="Exact support rate",
        definition="Middle of the bounds of the probability that a plain decimal lies in the support.",
        formula_text="P(value in support | plain decimal)",
        unit="probability",
        direction="higher",
        decimals=3,
    ),
)

METRICS = (*SAMPLED, *map(_quantile_error, LEVELS), *EXACT)
