"""The metrics of uncertainty: eight measures against people's entropy and against wrong answers, and length."""

from collections.abc import Iterator
from functools import partial

from pipeline.axes.uncertainty.measures import AUDITED, MEASURES
from pipeline.metrics.metric import OURS, Metric

PAPER, LENGTH_PAPER = "arXiv:2508.08204", "arXiv:2504.13677"
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
    axis="uncertainty",
    n="questions",
    aggregate="over questions",
    decimals=2,
    undefined="questions",
    unit="correlation",
    direction="neither",
)


def _of_measure(name: str) -> Iterator[Metric]:
    title = TITLES[name]
    yield _uncertainty(
        name=f"uncertainty_{name}_spearman",
        title=f"{title}: correlation with people's entropy",
        definition="Spearman's correlation with the entropy of people's answers, in questions with as many options.",
        formula_text="correlation of ranks less the mean rank of questions with as many options",
        direction="higher",
        source=PAPER,
        function=f"{ALIGNMENT}:rank_correlation",
        column="Spearman",
        headline=1 if name == MEASURES[0] else 0,
    )
    yield _uncertainty(
        name=f"uncertainty_{name}_p",
        title=f"{title}: p of that correlation",
        definition="Permutation test of that correlation, adjusted for the eight measures (max-T).",
        formula_text="share of permutations whose largest |correlation| reaches this one",
        unit="probability",
        source="Westfall and Young 1993",
        function=f"{ALIGNMENT}:adjusted_p_values",
        column="p",
        decimals=3,
    )
    yield _uncertainty(
        name=f"uncertainty_{name}_auroc",
        title=f"{title}: AUROC for wrong answers",
        definition="Probability that a question answered wrongly has more of it than one answered rightly. Undefined "
        "with fewer than ten of either.",
        formula_text="P(of wrong > of right) + P(equal) / 2",
        unit="probability",
        direction="higher",
        source=PAPER,
        function=f"{DISCRIMINATION}:auroc",
        column="AUROC",
    )


def _audit(name: str) -> Iterator[Metric]:
    title = TITLES[name]
    length = partial(_uncertainty, source=LENGTH_PAPER)
    yield length(
        name=f"length_{name}_spearman",
        title=f"{title}: correlation with length",
        definition="Spearman's correlation with the tokens of the answers.",
        formula_text="correlation of ranks within questions with as many options",
        function=f"{ALIGNMENT}:rank_correlation",
    )
    for suffix, words, function in (
        ("auroc", "AUROC, to be read beside that within lengths", "auroc"),
        ("auroc_within", "AUROC within answers of like length", "auroc_within_length"),
    ):
        yield length(
            name=f"length_{name}_{suffix}",
            title=f"{title}: {words}",
            definition="Read side by side: what an AUROC loses within fifths of answers by length, length gave it.",
            formula_text="P(of wrong > of right) + P(equal) / 2",
            unit="probability",
            direction="higher",
            function=f"{DISCRIMINATION}:{function}",
        )


METRICS = (
    *(metric for name in MEASURES for metric in _of_measure(name)),
    _uncertainty(
        name="uncertainty_ceiling",
        title="Ceiling of the correlation",
        definition="Correlation of the entropies of two random halves of people: about what a perfect measure reaches.",
        formula_text="mean over halvings of the same correlation",
        source=OURS,
        function="pipeline.axes.uncertainty.question:people_ceiling",
        column="Ceiling",
    ),
    *(metric for name in AUDITED for metric in _audit(name)),
    _uncertainty(
        name="length_right_spearman",
        title="Right answers and length",
        definition="Spearman's correlation of an answer being right with its tokens.",
        formula_text="correlation of ranks within questions with as many options",
        source=LENGTH_PAPER,
        function=f"{ALIGNMENT}:rank_correlation",
    ),
)
