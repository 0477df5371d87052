"""The metrics of semantic calibration, against accepted answers and against people's."""

from functools import partial

from pipeline.axes.metric import Metric
from pipeline.axes.questions import question_metric

EVALUATE = "pipeline.axes.semcal.evaluate"
_semcal = partial(
    question_metric,
    unit="probability",
    source="arXiv:2511.04869",
    aggregate="over questions; split all: the bare answer, other splits: the style of that name",
    axis="semcal",
    function=f"{EVALUATE}:predictions",
)
ERROR = "Smooth calibration error of the confidence in the most frequent class; the label is {}."
BRIER = (
    "1 - 2 n_label / n + sum n_k (n_k - 1) / (n (n - 1)): 0 for a sure right answer, 1 for answers that are all "
    "different and wrong, 2 for one wrong answer."
)
HALF = "Share of half of the answers in the class that is most frequent in the other half: not biased upwards."
AREA = "P(confidence of a right answer > of a wrong one), ties half; undefined with fewer than ten of either."
SMOOTH = {"source": "arXiv:2309.12236", "function": f"{EVALUATE}:smooth_calibration_error", "column": "SmoothECE"}
SCORE = {"function": f"{EVALUATE}:unbiased_brier_score", "direction": "lower", "column": "Brier score"}


def _against(prefix: str, whom: str, label: str, headline: int) -> tuple[Metric, ...]:
    error, share = ERROR.format(label), f"Mean label: {label}."
    smooth = {"headline": headline, **SMOOTH}
    return (
        _semcal(f"{prefix}smooth_ece", f"SmoothECE against {whom}", error, direction="lower", **smooth),
        _semcal(f"{prefix}brier", f"Brier score against {whom}", BRIER, **SCORE),
        _semcal(f"{prefix}accuracy", f"Accuracy against {whom}", share, direction="higher", column="Accuracy"),
        _semcal(f"{prefix}confidence", f"Confidence, against {whom}", HALF, direction="neither", column="Confidence"),
    )


METRICS = (
    *_against("semcal_", "accepted answers", "1 for a right class, else 0", headline=1),
    _semcal("semcal_auroc", "AUROC of the confidence", AREA, direction="higher", column="AUROC"),
    *_against("semcal_people_", "people", "the share of people in the class", headline=2),
)
