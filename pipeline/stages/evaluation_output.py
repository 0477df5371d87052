"""What every evaluation stage writes: metrics, a table by prompt, provenance, and a W&B run."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.artifacts.atomic import atomic_directory
from pipeline.artifacts.storage import write_json, write_table
from pipeline.dag.execution import StageRun


def _finite(row: Mapping[str, Any]) -> dict[str, Any]:
    """JSON has no NaN: an undefined number becomes null."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}


def write_evaluation(
    run: StageRun,
    output: Path,
    *,
    metrics: Sequence[Mapping[str, Any]],
    failures: Mapping[str, Mapping[str, int]],
    per_prompt: pd.DataFrame,
    tables: Mapping[str, pd.DataFrame] | None = None,
    documents: Mapping[str, Any] | None = None,
    results: Mapping[str, Any] | None = None,
) -> None:
    """Write one evaluation's directory and log it.

    Args:
        run: The stage's run, of a model and a condition.
        output: Directory to write: ``metrics.json``, ``per_prompt.parquet``, ``provenance.json``.
        metrics: Rows with axis, model, condition, split, family, metric, value, n, ci_low,
            ci_high, floor and undefined; NaN where there is no such number.
        failures: By split, how many generations failed for which reason.
        per_prompt: One row per prompt.
        tables: Further tables by name, each written as ``NAME.parquet``.
        documents: Further JSON files by path below ``output``.
        results: What the record says of it besides.
    """
    rows = [_finite(row) for row in metrics]
    with atomic_directory(output) as directory:
        write_json(directory / "metrics.json", {"metrics": rows, "failures": dict(failures)})
        for name, table in {"per_prompt": per_prompt, **(tables or {})}.items():
            write_table(directory / f"{name}.parquet", table)
        for name, content in (documents or {}).items():
            write_json(directory / name, content)
        run.write_record(directory, num_prompts=len(per_prompt), **(results or {}))
    headline = {f"{row['split']}/{row['metric']}": row["value"] for row in rows if not row["family"]}
    with run.tracked() as tracking:
        # W&B draws no undefined number.
        tracking.log({name: value for name, value in headline.items() if value is not None})
        tracking.table("metrics", pd.DataFrame(rows))
        tracking.table("per_prompt", per_prompt)
    shown = (f"{key} {'undefined' if value is None else f'{value:.4f}'}" for key, value in headline.items())
    print(f"{run.title}: {', '.join(shown)}")
