"""The aggregate rows of the metrics table by name, as the page's first screen reads them."""

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from pipeline.report.evaluations import methods_of, rows_of

W1 = "wasserstein_1_normalised"


class Aggregates:
    """The aggregate rows of the metrics table by axis, split, metric, model and condition."""

    def __init__(self, metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]):
        """Keep the rows over all families.

        Args:
            metrics: The tidy metrics table.
            models: Model name -> display name, of those that are spoken of.
            conditions: Base and the methods, in order.
        """
        rows = rows_of(metrics, family="").itertuples()
        self.models, self.conditions, self.methods = models, conditions, methods_of(conditions)
        self._rows = {(row.axis, row.split, row.metric, row.model, row.condition): row for row in rows}

    def get(self, axis: str, split: str, metric: str, model: str, condition: str):
        """The row, or None where it does not exist."""
        return self._rows.get((axis, split, metric, model, condition))

    def defined(self, axis: str, split: str, metric: str, condition: str) -> list:
        """The rows of a condition with a finite value, in the order of the models."""
        rows = (self.get(axis, split, metric, model, condition) for model in self.models)
        return [row for row in rows if row is not None and math.isfinite(row.value)]


def median(members: Sequence) -> float:
    """Median of the rows' values."""
    return float(pd.Series([row.value for row in members]).median())


def medians_by_condition(rows: Aggregates, axis: str, split: str, metric: str, form: str) -> str:
    """Median over the models by condition in the given format, as "base 1, soft 2"; empty without any."""
    found = {name: rows.defined(axis, split, metric, name) for name in rows.conditions}
    medians = {name: median(members) for name, members in found.items() if members}
    return ", ".join(f"{name} {value:{form}}" for name, value in medians.items())
