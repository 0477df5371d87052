"""What ``dvc metrics`` and ``dvc plots`` read: headline numbers as one JSON file, and training losses by model."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from pipeline.artifacts.json_lines import read_json_lines
from pipeline.config.params import Params
from pipeline.errors import ArtifactError


def losses_by_step(adapters: Sequence[Path], model: str, methods: Sequence[str]) -> pd.DataFrame | None:
    """Training loss by step and method, empty where one has no log; None without any. Raises ArtifactError."""
    logs = {}
    for method in methods:
        found = [path for root in adapters if (path := root / model / method / "train_log.jsonl").exists()]
        if len(found) > 1:
            raise ArtifactError(f"{found[0]} and {found[1]} are both the training of {model} {method}")
        for path in found:
            logs[method] = pd.DataFrame(read_json_lines(path, ("step", "loss"))).set_index("step")["loss"].astype(float)
    return pd.DataFrame(logs, columns=list(methods)).rename_axis("step").reset_index() if logs else None


def write_tracked_files(
    params: Params, headline: Mapping[str, float], adapters: Sequence[Path], directory: Path
) -> None:
    """Write ``metrics.json`` and ``plots/training_loss/MODEL.csv``; losses are the adapters'."""
    content = json.dumps(headline, indent=1, allow_nan=False)
    (directory / "metrics.json").write_text(content + "\n", encoding="utf-8")
    (directory / "plots" / "training_loss").mkdir(parents=True)
    for model in params.models:
        table = losses_by_step(adapters, model, [*params.methods])
        if table is not None:
            table.to_csv(directory / "plots" / "training_loss" / f"{model}.csv", index=False, encoding="utf-8")
