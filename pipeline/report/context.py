"""What tables and figures are made from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pandas as pd

from pipeline.config.params import Params
from pipeline.core.prompts.structured import Prompt
from pipeline.core.statistics.paired_tests import TEST_COLUMNS
from pipeline.report.evaluations import Evaluations, display_names, methods_of


@dataclass(frozen=True)
class ReportContext:
    """What tables and figures are made from.

    Metrics have one name per variant; ``task_format`` is how the tasks of retention were put to the models.
    """

    params: Params
    evaluations: Evaluations
    metrics: pd.DataFrame
    prompts: Sequence[Prompt]
    task_format: str = ""
    _tests: dict[str, pd.DataFrame] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Display name by model, in order."""
        return display_names(self.params)

    @property
    def conditions(self) -> Sequence[str]:
        """The base checkpoint and its adapters, in order."""
        return self.params.conditions

    @property
    def methods(self) -> Sequence[str]:
        """The conditions that have an adapter."""
        return methods_of(self.conditions)

    def tests(self, axis: str) -> pd.DataFrame:
        """An axis's tests against base, read once: columns model, condition and TEST_COLUMNS."""
        if axis not in self._tests:
            found = self.evaluations.stacked(axis, "tests", TEST_COLUMNS, self.params.models, self.methods)
            self._tests[axis] = found
        return self._tests[axis]
