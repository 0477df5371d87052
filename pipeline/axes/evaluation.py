"""The evaluation of one model on one axis under all of its conditions: what is read, summarised and written."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.artifacts.atomic import atomic_directory
from pipeline.artifacts.storage import rows_by_prompt, write_json, write_table
from pipeline.artifacts.unavailable import why_unavailable, write_unavailable
from pipeline.config.conditions import conditions_on
from pipeline.core.statistics.summarise import Statistic, summarise
from pipeline.dag.execution import StageRun
from pipeline.errors import UnavailableError


def _why_unavailable(run: StageRun, condition: str) -> str:
    """Why what a run reads of a condition is not there; empty where all of it is."""
    places = (
        place
        for path in run.inputs
        for place in (path / f"{condition}.parquet", *sorted((path / condition).glob("*/")))
    )
    return next(filter(None, (why_unavailable(place) for place in places if place.exists())), "")


class ModelEvaluation:
    """Collects metrics and tables of every condition, and writes a directory for each."""

    def __init__(self, run: StageRun, axis: str, model: str):
        self._run, self._axis, self._model = run, axis, model
        reasons = {name: _why_unavailable(run, name) for name in conditions_on(run.params, axis)}
        self._unavailable = {name: reason for name, reason in reasons.items() if reason}
        # What the model is evaluated under, base first; one that it could not be run under is left out.
        self.conditions = tuple(name for name, reason in reasons.items() if not reason)
        if not self.conditions:
            raise UnavailableError(f"{run.title}: there is nothing to evaluate: {'; '.join(reasons.values())}")
        # By condition and split, how many answers failed for which reason.
        self.failures: dict[str, dict[str, Mapping[str, int]]] = {name: {} for name in self.conditions}
        # What a condition's record says of it besides.
        self.results: dict[str, dict[str, Any]] = {name: {} for name in self.conditions}
        self._metrics: dict[str, list[dict[str, Any]]] = {name: [] for name in self.conditions}
        self._tables: dict[str, dict[str, list[pd.DataFrame]]] = {name: {} for name in self.conditions}

    def paths(self, directory: Path) -> Iterator[tuple[str, Path]]:
        """Each condition with its table in a directory of them."""
        return ((name, directory / f"{name}.parquet") for name in self.conditions)

    def rows(
        self, directory: Path, columns: Sequence[str], prompt_ids: Sequence[str]
    ) -> Iterator[tuple[str, dict[str, pd.DataFrame]]]:
        """Each condition with its rows in a directory of tables, by prompt. Raises ArtifactError for one without."""
        return ((name, rows_by_prompt(path, columns, prompt_ids)) for name, path in self.paths(directory))

    def summarise(
        self,
        rows: pd.DataFrame,
        statistics: Mapping[str, Statistic],
        floors: Mapping[str, str | float] | None = None,
        split: str = "all",
        stream: Sequence[str] = (),
        **options: Any,
    ) -> list[dict[str, Any]]:
        """Add the numbers of ``rows``, which have a column ``condition``; see ``summarise``. Returns them."""
        names, replicates = (self._axis, self._model, *stream), self._run.params.evaluate.bootstrap_replicates
        options |= {"seed": self._run.params.seed, "names": names, "replicates": replicates}
        numbers = summarise(rows, statistics, floors=floors, split=split, **options)
        for row in numbers:
            # JSON has no NaN: an undefined number becomes null.
            finite = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
            self._metrics[row["condition"]].append({"axis": self._axis, "model": self._model, **finite})
        return numbers

    def add_table(self, condition: str, name: str, table: pd.DataFrame) -> None:
        """Add rows to the table NAME.parquet of a condition; every condition has a table ``per_prompt``."""
        self._tables[condition].setdefault(name, []).append(table)

    def add_per_prompt(self, condition: str, rows: pd.DataFrame) -> None:
        """Add the table ``per_prompt`` without columns of arrays, and count its columns ``invalid_REASON`` by split."""
        table = rows.loc[:, ~rows.columns.str.endswith((" deviations", " floors"))]
        self.add_table(condition, "per_prompt", table)
        for split, members in table.groupby("split", sort=False):
            counts = members.filter(regex="^invalid_").sum().rename(lambda name: name.removeprefix("invalid_"))
            self.failures[condition][split] = {reason: int(count) for reason, count in counts.items() if count}

    def add_tables(self, name: str, rows: pd.DataFrame) -> None:
        """Add the rows of each condition to its table NAME.parquet."""
        for condition, own in rows.groupby("condition"):
            self.add_table(condition, name, own.drop(columns="condition"))

    def write(self, output: Path) -> None:
        """Write ``metrics.json``, the tables and a record of each condition below ``output``, and print the metrics."""
        with atomic_directory(output) as directory:
            for name in self.conditions:
                place = directory / name
                place.mkdir()
                write_json(place / "metrics.json", {"metrics": self._metrics[name], "failures": self.failures[name]})
                tables = {kind: pd.concat(parts, ignore_index=True) for kind, parts in self._tables[name].items()}
                for kind, table in tables.items():
                    write_table(place / f"{kind}.parquet", table)
                self._run.write_record(directory, name, num_prompts=len(tables["per_prompt"]), **self.results[name])
            for name, reason in self._unavailable.items():
                write_unavailable(directory / name, reason)
        rows = pd.DataFrame([row for own in self._metrics.values() for row in own])
        shown = rows[rows["family"] == ""]
        names = shown[["condition", "split", "metric"]].agg("/".join, axis=1)
        headline = {name: float(value) for name, value in zip(names, shown["value"], strict=True) if pd.notna(value)}
        print(f"{self._run.title}: {', '.join(f'{name} {value:.4f}' for name, value in headline.items())}")
