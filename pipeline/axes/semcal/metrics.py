"""The metrics of semantic calibration, against accepted answers and against people's."""

from functools import partial

from pipeline.axes.metric import Metric

_semcal = partial(
    Metric,
    formula_text="",
    n="questions",
    source="arXiv:2511.04869",
    aggregate="over questions; split all: the bare answer, other splits: the style of that name",
    axis="semcal",
    function="pipeline.axes.semcal.calibration:predictions",
    decimals=3,
    undefined="questions",
)
_error = partial(_semcal, direction="lower", unit="probability")
_share = partial(_semcal, direction="higher", unit="probability")
CALIBRATION = "pipeline.axes.semcal.calibration"
SMOOTH = "arXiv:2309.12236"
BRIER = (
    "1 - 2 n_label / n + sum n_k (n_k - 1) / (n (n - 1)): 0 for a sure right answer, 1 for answers that are all "
    "different and wrong, 2 for one wrong answer."
)
HALF = "Share of half of the answers in the class that is most frequent in the other half: not biased upwards."
AREA = "P(confidence of a right answer > of a wrong one), ties half; undefined with fewer than ten of either."


def _against(prefix: str, target: str, label: str, place: int) -> tuple[Metric, ...]:
    error = f"Smooth calibration error of the confidence in the most frequent class; the label is {label}."
    names = {name: f"semcal_{prefix}{name}" for name in ("smooth_ece", "brier", "accuracy", "confidence")}
    smooth = {"source": SMOOTH, "function": f"{CALIBRATION}:smooth_calibration_error", "column": "SmoothECE"}
    score = {"function": f"{CALIBRATION}:unbiased_brier_score", "column": "Brier score"}
    return (
        _error(names["smooth_ece"], f"SmoothECE against {target}", error, headline=place, **smooth),
        _error(names["brier"], f"Brier score against {target}", BRIER, **score),
        _share(names["accuracy"], f"Accuracy against {target}", f"Mean label: {label}.", column="Accuracy"),
        _semcal(
            names["confidence"],
            f"Confidence, against {target}",
            HALF,
            unit="probability",
            direction="neither",
            column="Confidence",
        ),
    )


METRICS = (
    *_against("", "accepted answers", "1 for a right class, else 0", 1),
    _share("semcal_auroc", "AUROC of the confidence", AREA, column="AUROC"),
    *_against("people_", "people", "the share of people in the class", 2),
)
