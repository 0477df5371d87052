"""What ``dvc metrics`` and ``dvc plots`` read: headline numbers as one JSON file, and small CSV files by model.

Columns are the same for all experiments, so that ``dvc.yaml`` can name them; where they are conditions, one that was
not run has empty cells.
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.artifacts.json_lines import read_json_lines
from pipeline.config.params import CONDITIONS, METHODS
from pipeline.core.laws.families import FAMILIES
from pipeline.errors import ArtifactError
from pipeline.metrics.registry import HEADLINES, SPLITS
from pipeline.report.evaluations import Evaluations, rows_of


def headline_numbers(metrics: pd.DataFrame) -> dict[str, dict]:
    """``{axis: {model: {condition: {split: {metric: value}}}}}``; without the split where an axis has one only.

    Undefined is None.
    """
    found: dict[str, dict] = {}
    for row in rows_of(metrics, family="").itertuples():
        if row.metric not in HEADLINES.get(row.axis, ()) or row.split not in SPLITS[row.axis]:
            continue
        numbers = found.setdefault(row.axis, {}).setdefault(row.model, {}).setdefault(row.condition, {})
        if len(SPLITS[row.axis]) > 1:
            numbers = numbers.setdefault(row.split, {})
        numbers[row.metric] = float(row.value) if math.isfinite(row.value) else None
    return found


def losses_by_step(adapters: Sequence[Path], model: str) -> pd.DataFrame | None:
    """Training loss: columns step and METHODS, one row per step of the longer training; None without a log.

    Args:
        adapters: Directories of adapters, MODEL/METHOD.
        model: Its name.

    Raises:
        ArtifactError: A log is truncated or lacks a field, or two directories have the same adapter.
    """
    logs = {}
    for method in METHODS:
        paths = [root / model / method / "train_log.jsonl" for root in adapters]
        found = [path for path in paths if path.exists()]
        if len(found) > 1:
            raise ArtifactError(f"{found[0]} and {found[1]} are both the training of {model} {method}")
        if found:
            entries = read_json_lines(found[0], ("step", "loss"))
            logs[method] = pd.Series({entry["step"]: entry["loss"] for entry in entries}, dtype=float)
    if not logs:
        return None
    return pd.DataFrame(logs, columns=list(METHODS)).rename_axis("step").reset_index()


def distances_by_family(metrics: pd.DataFrame, model: str) -> pd.DataFrame | None:
    """Normalised W1 by family and condition, one row each, because DVC's bars have one column of lengths.

    Columns bar ("poisson soft"), family, split, condition and wasserstein_1_normalised, families in the order of
    their table; None where nothing was evaluated.
    """
    rows = rows_of(metrics, axis="structured", model=model, metric="wasserstein_1_normalised")
    chosen = rows[(rows["family"] != "") & rows["condition"].isin(CONDITIONS)]
    if chosen.empty:
        return None
    order = [
        list(FAMILIES).index(family) * len(CONDITIONS) + CONDITIONS.index(condition)
        for family, condition in zip(chosen["family"], chosen["condition"], strict=True)
    ]
    ordered = chosen.iloc[np.argsort(order, kind="stable")].reset_index(drop=True)
    table = ordered[["family", "split", "condition"]].assign(wasserstein_1_normalised=ordered["value"])
    table.insert(0, "bar", table["family"] + " " + table["condition"])
    return table


def pit_densities(histograms: pd.DataFrame, model: str) -> pd.DataFrame | None:
    """Density of the PITs of all prompts: columns pit (middle of the bin), CONDITIONS and perfect; None without any.

    Args:
        histograms: Columns model, condition, bin, count and expected.
        model: Its name.
    """
    own = histograms[histograms["model"] == model]
    if own.empty:
        return None
    sums = own.groupby(["bin", "condition"])[["count", "expected"]].sum()
    densities = (sums["count"] / sums["expected"]).unstack("condition").reindex(columns=CONDITIONS)
    bins = len(densities)
    table = densities.rename_axis(columns=None).reset_index(drop=True)
    table.insert(0, "pit", [(place + 0.5) / bins for place in range(bins)])
    return table.assign(perfect=1.0)


def write_tracked_files(
    evaluations: Evaluations, models: Mapping[str, str], adapters: Sequence[Path], directory: Path
) -> None:
    """Write ``metrics.json`` and ``plots/{training_loss,wasserstein_1,pit}/MODEL.csv``.

    Args:
        evaluations: What there is.
        models: Models.
        adapters: Directories of adapters; without any there are no losses.
        directory: Where to.
    """
    content = json.dumps(headline_numbers(evaluations.metrics), indent=1, allow_nan=False)
    (directory / "metrics.json").write_text(content + "\n", encoding="utf-8")
    histograms = evaluations.stacked("structured", "pit", ("bin", "count", "expected"), models, CONDITIONS)
    for model in models:
        tables = {
            "training_loss": losses_by_step(adapters, model),
            "wasserstein_1": distances_by_family(evaluations.metrics, model),
            "pit": pit_densities(histograms, model),
        }
        for name, table in tables.items():
            folder = directory / "plots" / name
            folder.mkdir(parents=True, exist_ok=True)
            if table is not None:
                table.to_csv(folder / f"{model}.csv", index=False, encoding="utf-8")
