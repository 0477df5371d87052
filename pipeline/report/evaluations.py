"""Whatever evaluations exist below directories, AXIS/MODEL/CONDITION, and what a report makes of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pipeline.artifacts.prompts import read_prompts
from pipeline.artifacts.storage import read_json, read_table
from pipeline.artifacts.unavailable import UNAVAILABLE_FILE, why_unavailable
from pipeline.config.evaluation import AXES
from pipeline.config.params import BASE, Params
from pipeline.core.prompts.structured import Prompt
from pipeline.errors import ArtifactError
from pipeline.record.provenance import join_sources

METRIC_COLUMNS = (
    *("axis", "model", "condition", "split", "family", "metric", "value", "n", "ci_low", "ci_high", "floor"),
    *("provenance", "change", "change_low", "change_high", "note"),
)
"""Columns of reports/metrics.csv. The change is from base, paired; the note says why a value is undefined."""

UNITS = {
    "structured": ("families", "family"),
    "open": ("prompts", "prompt_id"),
    "novelty": ("prompts", "prompt_id"),
    "retention": ("items", "item"),
}
"""The pairs of a test of two conditions, by axis, and their column in its per_prompt.parquet."""


def display_names(params: Params) -> dict[str, str]:
    """Display name by model, in order."""
    return {name: model.display_name for name, model in params.models.items()}


def methods_of(conditions: Sequence[str]) -> tuple[str, ...]:
    """The conditions that have an adapter: all but base."""
    return tuple(name for name in conditions if name != BASE)


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, with dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        flat.update(flatten(value, f"{name}.") if isinstance(value, Mapping) else {name: value})
    return flat


class EvaluationKey(NamedTuple):
    axis: str
    model: str
    condition: str


def rows_of(metrics: pd.DataFrame, **labels: str) -> pd.DataFrame:
    """The rows that have a label in each of some columns; with ``family=""`` the aggregates over all families."""
    chosen = pd.Series(True, index=metrics.index)
    for column, label in labels.items():
        chosen &= metrics[column] == label
    return metrics[chosen]


@dataclass(frozen=True)
class Evaluations:
    """What the evaluation stages wrote."""

    metrics: pd.DataFrame  # METRIC_COLUMNS and ``undefined``; one row per number
    invalid: pd.DataFrame  # columns axis, model, condition, split, reason, count
    provenance: dict[str, dict]  # content of each provenance file by its path
    directories: dict[EvaluationKey, Path]
    failed: Mapping[EvaluationKey, str] = field(default_factory=dict)
    """Why there is no evaluation, where the model could not be run under a condition."""

    @property
    def axes(self) -> set[str]:
        return set(self.metrics["axis"])

    @cached_property
    def sources(self) -> dict[EvaluationKey, str]:
        """Provenance file of each evaluation that has a metric."""
        rows = self.metrics[["axis", "model", "condition", "provenance"]].itertuples(index=False, name=None)
        return {EvaluationKey(*names): path for *names, path in rows}

    def path(self, axis: str, model: str, condition: str, name: str) -> Path | None:
        """A file of an evaluation; None where the evaluation does not exist or has no such file."""
        directory = self.directories.get(EvaluationKey(axis, model, condition))
        return directory / name if directory is not None and (directory / name).exists() else None

    def with_provenance(self, axis: str, table: pd.DataFrame) -> pd.DataFrame:
        """A table with columns model, condition and perhaps against, and the provenance of their evaluations."""
        rows = table[[name for name in ("model", "condition", "against") if name in table]]
        found = [
            [self.sources.get(EvaluationKey(axis, model, condition)) for condition in conditions]
            for model, *conditions in rows.itertuples(index=False, name=None)
        ]
        return table.assign(provenance=[join_sources(paths) for paths in found])

    def stacked(
        self,
        axis: str,
        name: str,
        columns: Sequence[str],
        models: Iterable[str],
        conditions: Sequence[str],
        optional: Sequence[str] = (),
    ) -> pd.DataFrame:
        """``NAME.parquet`` of evaluations; ``optional`` may be NaN. Raises ArtifactError for lacking columns."""
        kept, parts = [*columns, *optional], []
        for model in models:
            for condition in conditions:
                path = self.path(axis, model, condition, f"{name}.parquet")
                if path is not None:
                    table = read_table(path, columns).reindex(columns=kept).astype(dict.fromkeys(optional, float))
                    parts.append(table.assign(model=model, condition=condition))
        order = ["model", "condition", *kept]
        return pd.concat(parts, ignore_index=True)[order] if parts else pd.DataFrame(columns=order)

    def by_unit(self, axis: str, split: str, metric: str, model: str, condition: str) -> pd.Series | None:
        """Means of a metric by ``UNITS``, float64; None where there are none, or all are undefined."""
        labels = {"axis": axis, "split": split, "metric": metric, "model": model, "condition": condition}
        path = self.path(axis, model, condition, "per_prompt.parquet")
        if path is None or axis not in UNITS or metric.startswith("gp_irt") or rows_of(self.metrics, **labels).empty:
            return None
        # The judge is a part of the name of NoveltyBench's metrics.
        column = "value" if axis == "retention" else metric.removesuffix("_lexical").removesuffix("_stand_in")
        unit, parts = UNITS[axis][1], [] if split in ("all", axis) else ["split"]
        table = read_table(path, [unit, column, *parts])
        own = table[table["split"] == split] if parts else table
        means = own.groupby(unit, sort=True)[column].mean().astype(float)
        return means if means.notna().any() else None

    def samples(self, models: Sequence[str], conditions: Sequence[str]) -> dict[str, dict[tuple[str, str], np.ndarray]]:
        """Valid samples of structured sampling: ``samples[model][condition, prompt_id]``, float64[n]."""
        found: dict[str, dict[tuple[str, str], np.ndarray]] = {}
        table = self.stacked("structured", "samples", ("prompt_id", "values"), models, conditions)
        for row in table.itertuples():
            found.setdefault(row.model, {})[row.condition, row.prompt_id] = np.asarray(row.values, dtype=np.float64)
        return found


@dataclass(frozen=True)
class ReportContext:
    """What tables and figures are made from; ``task_format`` is how the tasks of retention were put to the models."""

    params: Params
    evaluations: Evaluations
    prompts: Sequence[Prompt]
    task_format: str = ""

    @property
    def metrics(self) -> pd.DataFrame:
        return self.evaluations.metrics

    @cached_property
    def names(self) -> Mapping[str, str]:
        return display_names(self.params)

    @property
    def conditions(self) -> Sequence[str]:
        return self.params.conditions

    @property
    def methods(self) -> Sequence[str]:
        return methods_of(self.conditions)


def read_evaluations(*roots: Path) -> Evaluations:
    """Read all evaluations below the directories. Raises ArtifactError where two hold the same one."""
    metrics, invalid, provenance = [], [], {}
    directories = _directories(roots)
    for key, directory in directories.items():
        source = directory / "provenance.json"
        content = read_json(directory / "metrics.json")
        provenance[str(source)] = read_json(source)
        metrics.extend({**row, "provenance": str(source)} for row in content["metrics"])
        invalid.extend(
            {**key._asdict(), "split": split, "reason": reason, "count": count}
            for split, reasons in content["failures"].items()
            for reason, count in reasons.items()
        )
    frame = pd.DataFrame(metrics, columns=[*METRIC_COLUMNS, "undefined"])
    numbers = ["value", "ci_low", "ci_high", "floor", "change", "change_low", "change_high"]
    frame[numbers] = frame[numbers].astype(float)
    invalid = pd.DataFrame(invalid, columns=["axis", "model", "condition", "split", "reason", "count"])
    places = (path.parent for root in roots for path in root.glob(f"*/*/*/{UNAVAILABLE_FILE}"))
    failed = {EvaluationKey(*path.parts[-3:]): why_unavailable(path) for path in places}
    return Evaluations(frame, invalid, provenance, directories, failed)


def _directories(roots: Sequence[Path]) -> dict[EvaluationKey, Path]:
    """Directory of each evaluation, in the order of AXES and then of names."""
    found: dict[EvaluationKey, Path] = {}
    for root in roots:
        for path in root.glob("*/*/*/metrics.json"):
            key = EvaluationKey(*path.parent.parts[-3:])
            other = found.setdefault(key, path.parent)
            if other != path.parent:
                raise ArtifactError(
                    f"{other} and {path.parent} are both the evaluation {key.axis} of {key.model} {key.condition}; a "
                    "report takes one of them"
                )
    ranks = {axis: place for place, axis in enumerate(AXES)}
    return {key: found[key] for key in sorted(found, key=lambda key: (ranks.get(key.axis, len(ranks)), key))}


def prompt_format(reads: Iterable[Evaluations]) -> str:
    """The form in which the tasks of retention were put, "" without any. Raises ArtifactError for several."""
    found = {
        evaluations.provenance[path].get("prompt_format", "not recorded"): path
        for evaluations in reads
        for key, path in evaluations.sources.items()
        if key.axis == "retention"
    }
    if len(found) > 1:
        listed = "; ".join(f"{form} in {path}" for form, path in found.items())
        raise ArtifactError(
            f"retention was evaluated under several prompt formats, which no table mixes: {listed}. Set "
            "retention.prompt_format to one that all models have (plain, where one has no chat template)"
        )
    return next(iter(found), "")


def read_distinct_prompts(paths: Sequence[Path]) -> list[Prompt]:
    """Prompts of all files in order, each once: cells of a sweep have the same ones."""
    return list({prompt.prompt_id: prompt for path in paths for prompt in read_prompts(path)}.values())
