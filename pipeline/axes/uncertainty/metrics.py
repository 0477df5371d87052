"""The metrics of uncertainty: six measures against people's entropy and against wrong answers."""

from functools import partial

from pipeline.axes.metric import Metric
from pipeline.axes.questions import WRONG, question_metric

TITLES = {
    "semantic_entropy": "Semantic entropy",
    "top_class_uncertainty": "1 - share of the top class",
    "laplacian_eigenvalues": "Eigenvalues of the graph Laplacian",
    "first_token_entropy": "Entropy of the first token",
    "choice_entropy": "Entropy over the options",
    "mean_token_entropy": "Mean token entropy",
}
MEASURES = tuple(TITLES)
"""Chosen beforehand: with all that have been proposed, some correlate with anything."""
SAMPLED, OF_PROBABILITIES = MEASURES[:3], MEASURES[3:]
_metric = partial(
    question_metric,
    direction="higher",
    source="arXiv:2508.08204",
    aggregate="over questions",
    axis="uncertainty",
    decimals=2,
)
_correlation = partial(
    _metric, unit="correlation", function="pipeline.axes.uncertainty.evaluate:rank_correlation", column="Spearman"
)
_area = partial(_metric, unit="probability", function="pipeline.axes.questions.answers:auroc", column="AUROC")
PEOPLE = (
    "Spearman's correlation with the entropy of people's answers, in questions with as many options; floor: the "
    "ceiling, the same correlation of two halves of people."
)


def _of_measure(name: str, title: str) -> tuple[Metric, ...]:
    prefix, headline = f"uncertainty_{name}", int(name == MEASURES[0])
    return (
        _correlation(f"{prefix}_spearman", f"{title}: correlation with people's entropy", PEOPLE, headline=headline),
        _area(f"{prefix}_auroc", f"{title}: AUROC for wrong answers", WRONG),
    )


METRICS = tuple(metric for item in TITLES.items() for metric in _of_measure(*item))
