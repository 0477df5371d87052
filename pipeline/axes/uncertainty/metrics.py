"""The metrics of uncertainty: eight measures against people's entropy and against wrong answers."""

from functools import partial

from pipeline.axes.metric import OURS, Metric
from pipeline.axes.uncertainty.measures import MEASURES

EVALUATE = "pipeline.axes.uncertainty.evaluate"
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
_metric = partial(
    Metric,
    formula_text="",
    unit="probability",
    direction="higher",
    n="questions",
    source="arXiv:2508.08204",
    aggregate="over questions",
    axis="uncertainty",
    decimals=2,
    undefined="questions",
)
_correlation = partial(_metric, unit="correlation", function=f"{EVALUATE}:rank_correlation", column="Spearman")
_area = partial(_metric, function="pipeline.axes.questions.discrimination:auroc", column="AUROC")
_p = partial(_metric, direction="neither", function=f"{EVALUATE}:adjusted_p_values", column="p", decimals=3)
PEOPLE = "Spearman's correlation with the entropy of people's answers, in questions with as many options."
ADJUSTED = "Permutation test of that correlation, adjusted for the eight measures (max-T; Westfall and Young 1993)."
WRONG = "P(larger on a question answered wrongly than rightly), ties half; undefined with fewer than ten of either."
HALVES = "Correlation of the entropies of two random halves of people: about what a perfect measure reaches."
WITHIN = "Of fifths of the answers by length: what the AUROC loses there, length gave it."
AUDIT = {"function": "pipeline.axes.questions.discrimination:auroc_within_length", "source": "arXiv:2504.13677"}
CEILING = {"function": f"{EVALUATE}:people_ceiling", "source": OURS, "column": "Ceiling"}


def _of_measure(name: str) -> tuple[Metric, ...]:
    prefix, title, headline = f"uncertainty_{name}", TITLES[name], int(name == MEASURES[0])
    return (
        _correlation(f"{prefix}_spearman", f"{title}: correlation with people's entropy", PEOPLE, headline=headline),
        _p(f"{prefix}_p", f"{title}: p of that correlation", ADJUSTED),
        _area(f"{prefix}_auroc", f"{title}: AUROC for wrong answers", WRONG),
        _area(f"length_{name}_auroc_within", f"{title}: AUROC within answers of like length", WITHIN, **AUDIT),
    )


METRICS = (
    *(metric for name in MEASURES for metric in _of_measure(name)),
    _correlation("uncertainty_ceiling", "Ceiling of the correlation", HALVES, **CEILING),
)
