"""Metrics of structured sampling from generations and logit scores; no model is loaded."""

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.artifacts import (
    GENERATION_COLUMNS,
    PER_PROMPT_COLUMNS,
    SCORE_COLUMNS,
    atomic_directory,
    read_prompts,
    read_table,
    write_json,
    write_table,
)  # fmt: skip
from pipeline.command import run_stage
from pipeline.config import load_params
from pipeline.core.metrics.aggregate import aggregate_split
from pipeline.core.metrics.structured import bootstrap_prompt, evaluate_prompt
from pipeline.core.random_streams import random_stream
from pipeline.errors import ArtifactError
from pipeline.provenance import StageRecord
from pipeline.stages.arguments import stage_parser
from pipeline.tracking import tracked_run


def _nullable(row: dict) -> dict:
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}


def main(
    params: Path, model: str, condition: str, prompts: list[Path], generations: Path, scores: Path, floors: Path,
    output: Path,
) -> None:  # fmt: skip
    """Write ``metrics.json``, ``per_prompt.parquet`` and ``provenance.json`` into ``output``."""
    config = load_params(params)
    record = StageRecord(
        "eval_structured",
        {"seed": config.seed, "model": model, "condition": condition, "evaluate": config.evaluate},
        [*prompts, generations, scores, floors],
    )
    texts = read_table(generations, GENERATION_COLUMNS).groupby("prompt_id")["text"].apply(list)
    paths = read_table(scores, SCORE_COLUMNS).groupby(["prompt_id", "path_index"])["kl_nats"].mean()
    divergence = paths.groupby("prompt_id").mean()
    floor = read_table(floors, ("prompt_id", "num_samples", "replicates")).set_index("prompt_id")["replicates"]
    rows, reasons = [], {}
    for prompt in read_prompts(*prompts):
        for source, table in ((generations, texts), (scores, divergence), (floors, floor)):
            if prompt.prompt_id not in table.index:
                raise ArtifactError(f"{source} has no rows for the prompt {prompt.prompt_id}")
        result = evaluate_prompt(texts[prompt.prompt_id], prompt.law)
        rng = random_stream(config.seed, "bootstrap", "structured", model, condition, prompt.prompt_id)
        low, high = bootstrap_prompt(result.samples, prompt.law, config.evaluate.bootstrap_replicates, rng)
        reasons[prompt.prompt_id] = result.invalid
        rows.append(
            (
                prompt.prompt_id, prompt.split, prompt.family, result.num_samples, len(result.samples),
                result.valid_rate, result.wasserstein_1, result.wasserstein_1_normalised,
                divergence[prompt.prompt_id], float(np.mean(floor[prompt.prompt_id])), low, high,
            )
        )  # fmt: skip
    per_prompt = pd.DataFrame(rows, columns=[*PER_PROMPT_COLUMNS, "wasserstein_1_ci_low", "wasserstein_1_ci_high"])
    metrics, invalid = [], {}
    for split, members in per_prompt.groupby("split", sort=False):
        replicates = np.stack([floor[prompt_id] for prompt_id in members["prompt_id"]])
        names = ("structured", model, condition, str(split))
        for row in aggregate_split(
            members, replicates, seed=config.seed, names=names,
            bootstrap_replicates=config.evaluate.bootstrap_replicates,
        ):  # fmt: skip
            metrics.append(
                {"axis": "structured", "model": model, "condition": condition, "split": split, **_nullable(row)}
            )
        counts = sum((Counter(reasons[prompt_id]) for prompt_id in members["prompt_id"]), Counter())
        invalid[split] = dict(sorted(counts.items()))
    per_prompt["invalid"] = [
        str(reasons[prompt_id]) if reasons[prompt_id] else "" for prompt_id in per_prompt["prompt_id"]
    ]
    with atomic_directory(output) as directory:
        write_json(directory / "metrics.json", {"metrics": metrics, "invalid": invalid})
        write_table(directory / "per_prompt.parquet", per_prompt)
        record.write(directory / "provenance.json", num_prompts=len(per_prompt), seed=config.seed)
    with tracked_run(
        config.tracking, name=f"eval_structured {model} {condition}", group=config.experiment,
        job_type="eval_structured", identity=record.identity, settings=record.parameters,
    ) as run:  # fmt: skip
        headline = {f"{row['split']}/{row['metric']}": row["value"] for row in metrics if not row["family"]}
        run.log(headline)
        run.table("per_prompt", per_prompt)
    for split in dict.fromkeys(per_prompt["split"]):
        print(f"{model} {condition} {split}: " + ", ".join(
            f"{key.split('/')[1]} {value:.4f}" if value is not None else f"{key.split('/')[1]} undefined"
            for key, value in headline.items() if key.startswith(split)))  # fmt: skip


if __name__ == "__main__":
    parser = stage_parser(__doc__)
    parser.add_argument("--model", required=True, help="model name in params.yaml")
    parser.add_argument("--condition", required=True, help="base, soft or hard")
    parser.add_argument("--prompts", type=Path, nargs="+", required=True, help="prompt tables")
    parser.add_argument("--generations", type=Path, required=True, help="table written by generate")
    parser.add_argument("--scores", type=Path, required=True, help="table written by score_structured")
    parser.add_argument("--floors", type=Path, required=True, help="table written by floor_structured")
    parser.add_argument("--output", type=Path, required=True, help="directory to write")
    run_stage(main, parser.parse_args())
