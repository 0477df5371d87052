"""The metrics of uncertainty: eight measures against people's entropy and against wrong answers, and length."""

from functools import partial

from pipeline.axes.metric import OURS, Metric
from pipeline.axes.uncertainty.measures import AUDITED, MEASURES

LENGTH_PAPER = "arXiv:2504.13677"
ALIGNMENT, DISCRIMINATION = "pipeline.axes.uncertainty.alignment", "pipeline.axes.questions.discrimination"
TITLES = {
    "semantic_entropy": "Semantic entropy",
    "top_class_uncertainty": "1 - share of the top class",
    "laplacian_eigenvalues": "Eigenvalues of the graph Laplacian",
    "first_token_entropy": "Entropy of the first token",
    "top_10_entropy": "Entropy of the ten likeliest first tokens",
    "nucleus_90_entropy": "Entropy of the 0.9 nucleus",
    "choice_entropy": "Entropy over the options",
    "mean_token_entropy": "Mean token entropy",
}
_uncertainty = partial(
    Metric,
    formula_text="",
    n="questions",
    source="arXiv:2508.08204",
    aggregate="over questions",
    axis="uncertainty",
    decimals=2,
    undefined="questions",
)
_correlation = partial(
    _uncertainty, unit="correlation", direction="higher", function=f"{ALIGNMENT}:rank_correlation", column="Spearman"
)
_area = partial(
    _uncertainty, unit="probability", direction="higher", function=f"{DISCRIMINATION}:auroc", column="AUROC"
)
_p = partial(
    _uncertainty, unit="probability", direction="neither", function=f"{ALIGNMENT}:adjusted_p_values", column="p"
)
PEOPLE = "Spearman's correlation with the entropy of people's answers, in questions with as many options."
ADJUSTED = "Permutation test of that correlation, adjusted for the eight measures (max-T; Westfall and Young 1993)."
WRONG = "P(larger on a question answered wrongly than rightly), ties half; undefined with fewer than ten of either."
HALVES = "Correlation of the entropies of two random halves of people: about what a perfect measure reaches."
LENGTH = "Spearman's correlation with the tokens of the answers, in questions with as many options."
WITHIN = "Of fifths of the answers by length: what the AUROC loses there, length gave it."


def _of_measure(name: str) -> tuple[Metric, ...]:
    prefix, title, headline = f"uncertainty_{name}", TITLES[name], int(name == MEASURES[0])
    return (
        _correlation(f"{prefix}_spearman", f"{title}: correlation with people's entropy", PEOPLE, headline=headline),
        _p(f"{prefix}_p", f"{title}: p of that correlation", ADJUSTED, decimals=3),
        _area(f"{prefix}_auroc", f"{title}: AUROC for wrong answers", WRONG),
    )


def _audit(name: str) -> tuple[Metric, ...]:
    prefix, title, more = f"length_{name}", TITLES[name], {"source": LENGTH_PAPER}
    within = {"function": f"{DISCRIMINATION}:auroc_within_length", **more}
    return (
        _correlation(f"{prefix}_spearman", f"{title}: correlation with length", LENGTH, **more),
        _area(f"{prefix}_auroc", f"{title}: AUROC, beside that within lengths", WRONG, **more),
        _area(f"{prefix}_auroc_within", f"{title}: AUROC within answers of like length", WITHIN, **within),
    )


CEILING = {"function": "pipeline.axes.uncertainty.question:people_ceiling", "source": OURS, "column": "Ceiling"}
METRICS = (
    *(metric for name in MEASURES for metric in _of_measure(name)),
    _correlation("uncertainty_ceiling", "Ceiling of the correlation", HALVES, **CEILING),
    *(metric for name in AUDITED for metric in _audit(name)),
    _correlation("length_right_spearman", "Right answers and length", LENGTH, source=LENGTH_PAPER),
)
