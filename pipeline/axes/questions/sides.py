"""A condition beside the base checkpoint: what the evaluations of answers to questions have in common."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.axes.questions.answers import Answers, read_partition
from pipeline.axes.questions.people import PeopleSplit, people_splits
from pipeline.axes.questions.question import Question
from pipeline.config.evaluation import DEFAULT_SETTING
from pipeline.config.params import BASE
from pipeline.core.statistics.intervals import Estimate, metric_row
from pipeline.core.statistics.summarise import Statistic, summarise
from pipeline.dag.execution import StageRun
from pipeline.errors import ArtifactError
from pipeline.stages.evaluation_output import write_evaluation


def people_of(questions: Sequence[Question], axis: str, source: Path) -> list[Question]:
    """The questions that people were asked. Raises ArtifactError if there are none."""
    found = [question for question in questions if question.human]
    if not found:
        raise ArtifactError(f"{source} has no question that people were asked, which the axis {axis} needs")
    return found


class Comparison:
    """One evaluation of a condition, paired with base by question; ``metrics`` and ``tables`` grow with ``add``."""

    def __init__(self, run: StageRun, axis: str, model: str, condition: str, partitions: Sequence[Path] = ()):
        self._run, self._axis, self._model, self.condition = run, axis, model, condition
        # Of base itself both paths are its own, unless a caller replaces the first.
        conditions = (BASE, condition)
        self._paths = dict(zip(conditions, reversed(partitions), strict=False))
        self.sides = {name: read_partition(path) for name, path in self._paths.items()}
        self.metrics: list[dict[str, Any]] = []
        self.tables: list[pd.DataFrame] = []

    @property
    def styles(self) -> dict[str, str]:
        """Setting of the answers by split: "all" is the bare answer, the others are the styles."""
        return {"all": DEFAULT_SETTING, **{name: name for name in self._run.params.generate.questions.styles}}

    def answers(self, name: str, setting: str, question: Question) -> Answers:
        """The answers of a condition. Raises ArtifactError if there are none."""
        found = self.sides[name].get(setting, {}).get(question.prompt_id)
        if found is None:
            raise ArtifactError(
                f"{self._paths[name]} has no answers to the question {question.prompt_id} (setting {setting})"
            )
        return found

    def people_splits(self, question: Question, size: int, number: int, samples: int = 1) -> list[PeopleSplit]:
        """Splits of a question's people beside ``size`` answers: the same for all conditions."""
        return people_splits(question, size, seed=self._run.params.seed, number=number, samples=samples)

    def rows(
        self, questions: Sequence[Question], setting: str, row: Callable[[Question, Answers, str], Mapping[str, Any]]
    ) -> pd.DataFrame:
        """What ``row`` makes of every question under the condition and base, with columns prompt_id and condition."""
        return pd.DataFrame(
            [
                {
                    "prompt_id": question.prompt_id,
                    "condition": name,
                    **row(question, self.answers(name, setting, question), name),
                }
                for name in self.sides
                for question in questions
            ]
        )

    def own(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The rows of the condition."""
        return rows[rows["condition"] == self.condition].drop(columns="condition").reset_index(drop=True)

    def add(
        self,
        rows: pd.DataFrame,
        statistics: Mapping[str, Statistic],
        floors: Mapping[str, str | float],
        split: str,
        *stream: str,
    ) -> None:
        """Summarise rows of both conditions and keep the condition's."""
        params = self._run.params
        found = summarise(
            rows,
            statistics,
            floors=floors,
            split=split,
            seed=params.seed,
            names=(self._axis, self._model, *stream),
            replicates=params.evaluate.bootstrap_replicates,
        )
        own = [row for row in found if row["condition"] == self.condition]
        self.metrics += [{"axis": self._axis, "model": self._model, **row} for row in own]
        self.tables.append(self.own(rows).assign(split=split))

    def add_values(self, values: Mapping[str, float], size: int) -> None:
        """Keep numbers about ``size`` questions that have no interval, by metric; NaN where undefined."""
        labels = {"axis": self._axis, "model": self._model, "condition": self.condition, "split": "all"}
        for metric, value in values.items():
            estimate = Estimate(value, size, undefined=int(not math.isfinite(value)))
            self.metrics.append({**labels, **metric_row(metric, estimate)})

    def write(self, output: Path, per_prompt: pd.DataFrame, **tables: pd.DataFrame) -> None:
        """Write the evaluation directory."""
        write_evaluation(self._run, output, metrics=self.metrics, failures={}, per_prompt=per_prompt, tables=tables)
