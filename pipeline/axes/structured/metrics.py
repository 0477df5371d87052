"""The metrics of samples of numbers, with those of the model's own probabilities."""

from functools import partial

from pipeline.axes.metric import FAMILY_MEAN, FAMILY_MEDIAN, OURS, PAPER, PROMPTS, Metric

WIDTHS = "Q95 - Q05 of the target"
W1_FORMULA = "mean over i of |x_(i) - Q((i - 0.5) / N)| / (Q95 - Q05)"
PIT_SOURCE = "Dawid 1984; Diebold, Gunther and Tay 1998; for discrete laws Czado, Gneiting and Held 2009"
SAMPLES = "pipeline.axes.structured.wasserstein:evaluate_prompt"
PIT = "pipeline.axes.structured.pit"
KS = (
    "Share of requests whose first 100 readable answers pass a two-sample Kolmogorov-Smirnov test against 10,000 "
    "values of the law at p > .0001: SciPy's exact p, of a discrete law the permutation p, also exact. Readable is an "
    "answer that is one number, in the support or not. With fewer than 100 the test is of those, and rejects little; "
    "without any it fails."
)
KS_ALL = "As KS@100, but a request also fails where fewer than 90% of all its answers are readable."

_by_family = partial(
    Metric,
    axis="structured",
    aggregate=FAMILY_MEDIAN,
    undefined="families",
    direction="lower",
    decimals=4,
    n="valid answers",
)
_w1 = partial(_by_family, formula_text=W1_FORMULA, unit=WIDTHS, function=SAMPLES)
_pit = partial(_by_family, unit="probability")
_exact = partial(_by_family, n=PROMPTS, source=OURS, function="pipeline.core.exact.number_law:bound_number_law")
_logit_kl = partial(_exact, unit="nats", function="pipeline.core.training.objectives:forward_kl", decimals=3)

ks = partial(
    Metric,
    unit="share",
    direction="higher",
    n="requests",
    source="arXiv:2606.06622",
    aggregate="over all requests",
    function="pipeline.axes.structured.ks:ks_passes",
    decimals=3,
    undefined="requests",
)
_ks = partial(ks, axis="structured")

METRICS = (
    _w1(
        name="wasserstein_1_normalised",
        title="W1 (normalised)",
        definition="Mean distance of the ordered valid answers from the target's mid-quantiles, in widths of the "
        "target. For a law without a mean (Cauchy) its expectation is infinite, so single answers decide it.",
        source=f"{PAPER}, Eq. 5 and Section 4.2",
        headline=1,
    ),
    _w1(
        name="wasserstein_1_normalised_prompt_median",
        title="W1 (normalised), median over a family's prompts",
        definition="Of each family by itself: the median of its prompts' normalised W1, which one prompt far off does "
        "not decide. With a single prompt it is that prompt's.",
        source=f"{PAPER}, Figures 4 and 7",
        aggregate="median over the finite values within each family; none across families",
        undefined="prompts",
    ),
    Metric(
        name="valid_rate",
        title="Valid rate",
        definition="Share of answers that are valid: on numbers one finite decimal or scientific literal in the law's "
        "support (whole for an integer law), on open-ended requests a non-empty answer.",
        unit="share",
        direction="higher",
        n="answers (open-ended: prompts)",
        source=f"{PAPER}, Section 4.2",
        aggregate="over all answers of the split; open-ended: mean over prompts",
        axis="structured",
        function="pipeline.axes.structured.aggregate:summaries",
        decimals=3,
        undefined="prompts",
        headline=4,
    ),
    _ks("ks_at_100", "KS@100", KS, column="KS@100, readable alone"),
    _ks("ks_at_100_all", "KS@100, unreadable answers counted", KS_ALL, column="KS@100"),
    _pit(
        name="pit_wasserstein_1",
        title="W1 on the PIT scale",
        definition="W1 after every valid answer is replaced by its probability integral transform u = F(x), which is "
        "uniform for a perfect sampler: finite for every family, at most 1/2. Within a value's probability (integer "
        "laws), or what rounding in print leaves open (5% of the law at most), u is drawn uniformly.",
        formula_text="mean over i of |u_(i) - (i - 0.5) / N|",
        source=f"Eq. 5 on u; {PIT_SOURCE}",
        function=f"{PIT}:pit_wasserstein_1",
        column="W1 (PIT)",
    ),
    _pit(
        name="pit_wasserstein_1_all_answers",
        title="W1 on the PIT scale, invalid answers counted",
        definition="As W1 on the PIT scale over all answers: an invalid one counts with distance 1, more than any "
        "valid one can. Between 0 and 1, defined without a valid answer.",
        formula_text="v * mean |u_(i) - (i - 0.5) / N| + (1 - v), v = valid rate",
        n="answers",
        source=OURS,
        function=f"{PIT}:count_invalid_as_one",
        column="W1 (PIT), invalid counted",
        headline=2,
    ),
    _logit_kl(
        name="logit_kl_nats",
        title="Logit KL",
        definition="Forward KL of the model's next-token law from the trie's target, normalised over the full "
        "vocabulary, mean over the prefixes of sampled paths. The grid keeps few decimals, so it cannot reach 0.",
        formula_text="mean over prefixes p of sum over v of q(v|p) log(q(v|p) / model(v|p))",
        source=f"{PAPER}, Eq. 2, Section 4.2 and Tables 6 and 7",
        aggregate=FAMILY_MEAN,
        column="Logit KL (nats)",
        headline=3,
    ),
    _logit_kl(
        name="logit_kl_rounded_law_nats",
        title="Logit KL, every decimal",
        definition="Logit KL against the law rounded to five decimals, none left out; can reach 0.",
        column="Logit KL, every decimal (nats)",
    ),
    _exact(
        name="exact_wasserstein_1_normalised",
        title="Exact W1",
        definition="Middle of the certified bounds of the W1 of the model's whole law over plain decimals.",
        formula_text="integral of |F_model - F| over the window, / (Q95 - Q05)",
        unit=WIDTHS,
    ),
    _exact(
        name="exact_support_rate",
        title="Exact support rate",
        definition="Middle of the bounds of the probability that a plain decimal lies in the support.",
        unit="probability",
        direction="higher",
        decimals=3,
    ),
)
