"""The metrics of semantic calibration, against accepted answers and against people's."""

from collections.abc import Iterator
from functools import partial

from pipeline.metrics.metric import OURS, Metric

PAPER = "arXiv:2511.04869"
CALIBRATION = "pipeline.axes.semcal.calibration"
_semcal = partial(
    Metric,
    axis="semcal",
    n="questions",
    aggregate="over questions; split all: the bare answer, other splits: the style of that name",
    decimals=3,
    undefined="questions",
    unit="probability",
    source=PAPER,
    function="pipeline.axes.semcal.semantic_calibration:prediction",
)


def _against(prefix: str, target: str, label: str) -> Iterator[Metric]:
    yield _semcal(
        name=f"semcal_{prefix}smooth_ece",
        title=f"SmoothECE against {target}",
        definition=f"Smooth calibration error of the confidence in the most frequent class; the label is {label}.",
        formula_text="integral of |mean (label - confidence) K_s(t, confidence)| dt, at the s that it is equal to",
        direction="lower",
        source="arXiv:2309.12236",
        function=f"{CALIBRATION}:smooth_calibration_error",
        column="SmoothECE",
        headline=2 if prefix else 1,
    )
    yield _semcal(
        name=f"semcal_{prefix}ece",
        title=f"ECE against {target}",
        definition="Calibration error of the same confidence in ten bins of equal width.",
        formula_text="sum over bins of |mean label - mean confidence| size / n",
        direction="lower",
        source="Naeini, Cooper and Hauskrecht 2015",
        function=f"{CALIBRATION}:binned_error",
        column="ECE",
    )
    yield _semcal(
        name=f"semcal_{prefix}brier",
        title=f"Brier score against {target}",
        definition="Multi-class Brier score of the model's law over classes, without the bias of few answers: 0 for a "
        "sure right answer, 1 for answers that are all different and wrong, 2 for one wrong answer.",
        formula_text="1 - 2 n_label / n + sum of n_k (n_k - 1) / (n (n - 1))",
        unit="squared probability",
        direction="lower",
        source="Brier 1950; unbiased estimate ours",
        function=f"{CALIBRATION}:unbiased_brier_score",
        column="Brier score",
    )
    yield _semcal(
        name=f"semcal_{prefix}accuracy",
        title=f"Accuracy against {target}",
        definition=f"Mean label of the most frequent class of answers: {label}.",
        formula_text="mean label",
        direction="higher",
        column="Accuracy",
    )
    yield _semcal(
        name=f"semcal_{prefix}confidence",
        title=f"Confidence, against {target}",
        definition="Share of one half of the answers in the class that is most frequent in the other half: not "
        "biased upwards, as the share of all is.",
        formula_text="mean over ten halvings",
        direction="neither",
        source=f"{PAPER}; halving ours",
        function="pipeline.axes.questions.confidence:held_out_confidence",
        column="Confidence",
    )


METRICS = (
    *_against("", "accepted answers", "1 for a right class, else 0"),
    _semcal(
        name="semcal_auroc",
        title="AUROC of the confidence",
        definition="Probability that a right answer has a larger confidence than a wrong one. Undefined with fewer "
        "than ten of either, or where most pairs are ties.",
        formula_text="P(confidence of right > of wrong) + P(equal) / 2",
        direction="higher",
        source=OURS,
        function="pipeline.axes.questions.discrimination:auroc",
        column="AUROC",
    ),
    *_against("people_", "people", "the share of people in the class"),
)
