"""The metrics of laws of one's own."""

from functools import partial

from pipeline.axes.metric import OURS, PROMPTS, Metric
from pipeline.axes.structured.metrics import KS, KS_ALL, W1_FORMULA, WIDTHS, ks

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
_variation = partial(_law, unit="probability", function="pipeline.core.statistics.law_check:total_variations")
_w1 = partial(_law, formula_text=W1_FORMULA, unit=WIDTHS, function="pipeline.axes.structured.wasserstein:wasserstein_1")
_valid = partial(
    _law,
    unit="share",
    direction="higher",
    n="answers",
    aggregate="over all answers",
    undefined="value",
    function="pipeline.axes.laws.law_metrics:evaluate_law",
)
_ks = partial(ks, axis="laws")
_exact = partial(_law, n=PROMPTS, function="pipeline.axes.laws.score:exact_figures")
TV = (
    "Total variation of the valid answers' classes from the law, of categories. The floor is simulated from the law at "
    "as many valid answers."
)
TV_FORMULA = "1/2 sum over classes of |share - probability|"
W1 = "W1 of the valid answers from the law, of numbers, as in structured sampling."
VALID = "Share of answers that are one of the law's strings, or a number in its support."
METRICS = (
    _variation("law_total_variation", "Total variation of answers", TV, TV_FORMULA, column="TV", headline=1),
    _variation(
        "law_chance_gap",
        "Gap between chance and share",
        "Mean over the options of a request of the gap between the option's chance and its share of the valid answers, "
        "of requests that are answered with one option. The floor is simulated from the law at as many valid answers.",
        "mean over options of |share - probability|",
        column="Gap",
    ),
    _w1("law_wasserstein_1_normalised", "Normalised W1 of answers", W1, column="W1", headline=2),
    _valid("law_valid_rate", "Valid answers to laws of one's own", VALID, column="Valid", headline=3),
    _ks("law_ks_at_100", "KS@100 of laws of one's own", f"{KS} Of numbers alone.", column="KS@100"),
    _ks("law_ks_at_100_all", "KS@100 of one's own laws, unreadable counted", KS_ALL),
    _exact(
        "law_exact_total_variation",
        "Exact total variation by class",
        "Total variation of the model's law over classes from the target, all other answers being one more class; not "
        "sampled.",
        "1/2 (sum over classes of |model - probability| + mass elsewhere)",
        unit="probability",
        column="Exact TV",
        headline=4,
    ),
    _exact(
        "law_exact_wasserstein_1_normalised",
        "Exact W1 on the strings",
        "W1 of the model's law, given that the answer is one of the law's strings, from the law.",
        "integral of |F_model - F| / (Q95 - Q05)",
        unit=WIDTHS,
        column="Exact W1",
    ),
)
