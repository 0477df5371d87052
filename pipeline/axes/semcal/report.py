"""Tables of semantic calibration."""

from collections.abc import Mapping

from pipeline.config.params import BASE
from pipeline.report.axis_report import AxisReport
from pipeline.report.table import Cells, Column, TableSpec


def calibration_verdict(error: Mapping[str, float], score: Mapping[str, float]) -> str:
    """Whether a condition is calibrated better than base: a smaller error *and* a Brier score that does not rise,
    because a model that answers nonsense has an error near 0."""
    if error["change_low"] > 0 or score["change_low"] > 0:
        return "worse"
    return "better" if error["change_high"] < 0 and score["change"] <= 0 else "not shown to differ"


def _table(prefix: str, against: str, floor: str, *more: Column) -> TableSpec:
    error, score = f"{prefix}smooth_ece", f"{prefix}brier"

    def verdict(cells: Cells, condition: str) -> str:
        if condition == BASE or error not in cells or score not in cells:
            return ""
        return calibration_verdict(cells[error]._asdict(), cells[score]._asdict())

    columns = (
        Column(error),
        Column(error, "floor", f"SmoothECE of {floor}"),
        Column(error, "change", "Change"),
        Column(score),
        Column(score, "change", "Change"),
        Column(f"{prefix}accuracy"),
        Column(f"{prefix}confidence"),
        *more,
    )
    note = (
        "Better than base: SmoothECE falls and the Brier score does not rise. A model that answers nonsense is sure of "
        "nothing and so has no SmoothECE; its Brier score shows it. Intervals of SmoothECE are centred on the "
        "estimate, to be read against the floor."
    )
    caption = f"Semantic calibration against {against}"
    return TableSpec(f"{prefix}calibration", caption, columns, note, "Style", verdict=("Against base", verdict))


REPORT = AxisReport(
    "Does a model that gives an answer in seven of ten samples give the right one seven times in ten, or that of seven "
    "in ten people?",
    (
        _table("semcal_", "accepted answers", "a calibrated model", Column("semcal_auroc")),
        _table("semcal_people_", "people", "people"),
    ),
)
