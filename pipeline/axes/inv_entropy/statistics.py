"""From Inv-Entropy by question to reported numbers: the excess, TSU, and right answers against wrong ones."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from pipeline.axes.inv_entropy.chains import rises_with_temperature
from pipeline.axes.questions.discrimination import auroc, auroc_problem
from pipeline.core.statistics.summarise import Statistic, mean_of

MEANS = ("excess_nats", "inv_entropy_nats", "input_dispersion", "output_dispersion")
STATISTICS: Mapping[str, Statistic] = {f"inv_{name.removeprefix('inv_')}": mean_of(name) for name in MEANS}
SCORES = ("excess_nats", "input_dispersion")
"""Whose AUROC is reported. That of the input's dispersion knows nothing of the answers: what it reaches is no credit to
the excess."""


def _area(column: str) -> Statistic:
    def area(rows: pd.DataFrame, weights: np.ndarray) -> np.ndarray:
        return auroc(-rows[column].to_numpy(), rows["right"].to_numpy() > 0.5, weights)

    def problem(rows: pd.DataFrame) -> str:
        return auroc_problem(-rows[column].to_numpy(), rows["right"].to_numpy() > 0.5)

    return Statistic((column, "right"), area, problem=problem)


def default_statistics(temperatures: Sequence[str]) -> dict[str, Statistic]:
    """Statistics of the default setting: STATISTICS, AUROC for wrong answers, and TSU of several temperatures."""
    areas = {f"inv_{column}_auroc": _area(column) for column in SCORES}
    rises = {"inv_tsu": mean_of("rises")} if len(temperatures) > 1 else {}
    return {**STATISTICS, **areas, **rises}


def with_rises(rows: pd.DataFrame, by_temperature: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The rows with a column ``rises``: 1 where the excess rises strictly with the temperature.

    Args:
        rows: By condition and question.
        by_temperature: The same conditions and questions in the same order, by ascending temperature.
    """
    excess = np.stack([table["excess_nats"].to_numpy() for table in by_temperature], axis=-1)
    return rows.assign(rises=rises_with_temperature(excess).astype(np.float64))
