"""The metrics of semantic calibration, against accepted answers and against people's."""

from functools import partial

from pipeline.axes.metric import Metric

EVALUATE = "pipeline.axes.semcal.evaluate"
_semcal = partial(
    Metric,
    formula_text="",
    unit="probability",
    n="questions",
    source="arXiv:2511.04869",
    aggregate="over questions; split all: the bare answer, other splits: the style of that name",
    axis="semcal",
    function=f"{EVALUATE}:predictions",
    decimals=3,
    undefined="questions",
)
_error = partial(
    _semcal,
    direction="lower",
    source="arXiv:2309.12236",
    function=f"{EVALUATE}:smooth_calibration_error",
    column="SmoothECE",
)
_brier = partial(_semcal, direction="lower", function=f"{EVALUATE}:unbiased_brier_score", column="Brier score")
_share = partial(_semcal, direction="higher")
_confidence = partial(_semcal, direction="neither", column="Confidence")
ERROR = "Smooth calibration error of the confidence in the most frequent class; the label is {}."
RIGHT, PEOPLE = "1 for a right class, else 0", "the share of people in the class"
BRIER = (
    "1 - 2 n_label / n + sum n_k (n_k - 1) / (n (n - 1)): 0 for a sure right answer, 1 for answers that are all "
    "different and wrong, 2 for one wrong answer."
)
HALF = "Share of half of the answers in the class that is most frequent in the other half: not biased upwards."
AREA = "P(confidence of a right answer > of a wrong one), ties half; undefined with fewer than ten of either."
METRICS = (
    _error("semcal_smooth_ece", "SmoothECE against accepted answers", ERROR.format(RIGHT), headline=1),
    _brier("semcal_brier", "Brier score against accepted answers", BRIER),
    _share("semcal_accuracy", "Accuracy against accepted answers", f"Mean label: {RIGHT}.", column="Accuracy"),
    _confidence("semcal_confidence", "Confidence, against accepted answers", HALF),
    _share("semcal_auroc", "AUROC of the confidence", AREA, column="AUROC"),
    _error("semcal_people_smooth_ece", "SmoothECE against people", ERROR.format(PEOPLE), headline=2),
    _brier("semcal_people_brier", "Brier score against people", BRIER),
    _share("semcal_people_accuracy", "Accuracy against people", f"Mean label: {PEOPLE}.", column="Accuracy"),
    _confidence("semcal_people_confidence", "Confidence, against people", HALF),
)
