"""What ``dvc metrics`` and ``dvc plots`` read: headline numbers as one JSON file, and small CSV files by model.

Columns that ``dvc.yaml`` names are there in all experiments, because DVC draws nothing of a file that lacks one: a
condition that was not run, and soft or hard where they are no methods, has empty cells.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.artifacts.json_lines import read_json_lines
from pipeline.axes.registry import HEADLINES, SPLITS
from pipeline.config.params import Params
from pipeline.core.laws.families import FAMILIES
from pipeline.errors import ArtifactError
from pipeline.report.evaluations import Evaluations, rows_of

W1 = "wasserstein_1_normalised"
NUM_AXES = 3
"""Of so many axes one number is shown: ``dvc metrics show`` has a column for each number of each condition."""


def headline_numbers(metrics: pd.DataFrame) -> dict[str, dict]:
    """``{model: {condition: {metric: value}}}``: the first headline metric of the first axes, on their first split.

    Undefined is None.
    """
    found: dict[str, dict] = {}
    for axis in [axis for axis in HEADLINES if axis in set(metrics["axis"])][:NUM_AXES]:
        for row in rows_of(
            metrics, axis=axis, split=SPLITS[axis][0], family="", metric=HEADLINES[axis][0]
        ).itertuples():
            numbers = found.setdefault(row.model, {}).setdefault(row.condition, {})
            numbers[row.metric] = float(row.value) if math.isfinite(row.value) else None
    return found


def losses_by_step(adapters: Sequence[Path], model: str, methods: Sequence[str]) -> pd.DataFrame | None:
    """Training loss: columns step and the methods, one row per step of the longest training; None without a log.

    Raises ArtifactError: A log is truncated or lacks a field, or two directories have the same adapter.
    """
    logs = {}
    for method in methods:
        found = [path for root in adapters if (path := root / model / method / "train_log.jsonl").exists()]
        if len(found) > 1:
            raise ArtifactError(f"{found[0]} and {found[1]} are both the training of {model} {method}")
        for path in found:
            logs[method] = pd.DataFrame(read_json_lines(path, ("step", "loss"))).set_index("step")["loss"].astype(float)
    return pd.DataFrame(logs, columns=list(methods)).rename_axis("step").reset_index() if logs else None


def distances_by_family(metrics: pd.DataFrame, model: str, conditions: Sequence[str]) -> pd.DataFrame | None:
    """Normalised W1 by family and condition, one row each, because DVC's bars have one column of lengths.

    Columns bar ("poisson soft"), family, split, condition and W1, families in the order of their table; None without.
    """
    rows = rows_of(metrics, axis="structured", model=model, metric=W1)
    chosen = rows[(rows["family"] != "") & rows["condition"].isin(conditions)]
    if chosen.empty:
        return None
    order = {"family": list(FAMILIES).index, "condition": list(conditions).index}
    chosen = chosen.sort_values(list(order), key=lambda names: names.map(order[names.name]), kind="stable")
    chosen = chosen.assign(bar=chosen["family"] + " " + chosen["condition"]).rename(columns={"value": W1})
    return chosen[["bar", "family", "split", "condition", W1]].reset_index(drop=True)


def pit_densities(histograms: pd.DataFrame, model: str, conditions: Sequence[str]) -> pd.DataFrame | None:
    """Density of the PITs of all prompts: columns pit (middle of the bin), conditions and perfect; None without any."""
    own = rows_of(histograms, model=model)
    if own.empty:
        return None
    sums = own.groupby(["bin", "condition"])[["count", "expected"]].sum()
    densities = (sums["count"] / sums["expected"]).unstack("condition").reindex(columns=list(conditions))
    table = densities.rename_axis(columns=None).reset_index(drop=True)
    table.insert(0, "pit", (np.arange(len(table)) + 0.5) / len(table))
    return table.assign(perfect=1.0)


def write_tracked_files(params: Params, evaluations: Evaluations, adapters: Sequence[Path], directory: Path) -> None:
    """Write ``metrics.json`` and ``plots/{training_loss,wasserstein_1,pit}/MODEL.csv``; losses are the adapters'."""
    content = json.dumps(headline_numbers(evaluations.metrics), indent=1, allow_nan=False)
    (directory / "metrics.json").write_text(content + "\n", encoding="utf-8")
    trained = [name for name, method in params.methods.items() if method.targets]
    columns, conditions = ("bin", "count", "expected"), params.conditions
    histograms = evaluations.stacked("structured", "pit", columns, params.models, conditions)
    for model in params.models:
        tables = {
            "training_loss": losses_by_step(adapters, model, trained),
            "wasserstein_1": distances_by_family(evaluations.metrics, model, conditions),
            "pit": pit_densities(histograms, model, conditions),
        }
        for name, table in tables.items():
            folder = directory / "plots" / name
            folder.mkdir(parents=True, exist_ok=True)
            if table is not None:
                table.to_csv(folder / f"{model}.csv", index=False, encoding="utf-8")
