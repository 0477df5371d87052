"""Metrics of structured sampling from generations and logit scores; no model is loaded."""

import math
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.artifacts import (
    EXACT_COLUMNS,
    GENERATION_COLUMNS,
    SCORE_COLUMNS,
    atomic_directory,
    read_prompts,
    read_table,
    write_json,
    write_table,
)
from pipeline.command import run_stage
from pipeline.config import load_params
from pipeline.core.metrics.aggregate import aggregate_split, failure_counts
from pipeline.core.metrics.structured import prompt_row
from pipeline.core.random_streams import random_stream
from pipeline.errors import ArtifactError
from pipeline.provenance import StageRecord
from pipeline.stages.arguments import stage_parser
from pipeline.tracking import tracked_run


def _nullable(row: dict) -> dict:
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}


def exact_columns(computed: pd.Series) -> dict[str, float]:
    """Columns of the per-prompt table from a row of the exact figures; bounds also as their middle."""
    low, high = computed["wasserstein_1_low"], computed["wasserstein_1_high"]
    return {
        "exact_wasserstein_1_normalised": (low + high) / 2,
        "exact_wasserstein_1_normalised_low": low,
        "exact_wasserstein_1_normalised_high": high,
        "exact_support_rate": (computed["support_low"] + computed["support_high"]) / 2,
        "exact_valid_rate_low": computed["valid_low"],
        "exact_valid_rate_high": computed["valid_high"],
        "exact_logit_kl_nats": computed["logit_kl_nats"],
        **{
            f"exact_{name}": computed[name]
            for name in EXACT_COLUMNS
            if name not in ("prompt_id", "logit_kl_nats", "wasserstein_1_low", "wasserstein_1_high")
        },
    }


def _track(config, record: StageRecord, name: str, headline: dict, per_prompt: pd.DataFrame) -> None:
    with tracked_run(
        config.tracking, name=name, group=config.experiment, job_type="eval_structured",
        identity=record.identity, settings=record.parameters,
    ) as run:  # fmt: skip
        run.log(headline)
        run.table("per_prompt", per_prompt)
    shown = (f"{key} {'undefined' if value is None else f'{value:.4f}'}" for key, value in headline.items())
    print(f"{name}: {', '.join(shown)}")


def main(
    params: Path, model: str, condition: str, prompts: list[Path], generations: Path, scores: Path, exact: Path,
    floors: Path, output: Path,
) -> None:  # fmt: skip
    """Write ``metrics.json``, ``per_prompt.parquet`` and ``provenance.json`` into ``output``."""
    config = load_params(params)
    replicates = config.evaluate.bootstrap_replicates
    record = StageRecord(
        "eval_structured",
        {"seed": config.seed, "model": model, "condition": condition, "bootstrap_replicates": replicates},
        [*prompts, generations, scores, exact, floors],
    )
    texts = read_table(generations, GENERATION_COLUMNS).groupby("prompt_id")["text"].apply(list)
    paths = read_table(scores, SCORE_COLUMNS).groupby(["target", "prompt_id", "path_index"])["kl_nats"].mean()
    divergences = paths.groupby(["target", "prompt_id"]).mean()
    divergence, rounded = divergences["grid"], divergences.get("rounded_law", {})
    computed = read_table(exact, EXACT_COLUMNS).set_index("prompt_id")
    floor = read_table(floors, ("prompt_id", "num_samples", "replicates")).set_index("prompt_id")
    rows = []
    for prompt in read_prompts(*prompts):
        for source, table in ((generations, texts), (scores, divergence), (exact, computed), (floors, floor)):
            if prompt.prompt_id not in table.index:
                raise ArtifactError(f"{source} has no rows for the prompt {prompt.prompt_id}")
        rng = random_stream(config.seed, "bootstrap", "structured", model, condition, prompt.prompt_id)
        row = prompt_row(prompt, texts[prompt.prompt_id], replicates, rng)
        simulated = floor.loc[prompt.prompt_id]
        if row["num_samples"] != simulated["num_samples"]:
            raise ArtifactError(
                f"{floors} is for {simulated['num_samples']} samples per prompt, {generations} has {row['num_samples']}"
            )
        rows.append({
            **row, "logit_kl_nats": divergence[prompt.prompt_id],
            "logit_kl_rounded_law_nats": rounded.get(prompt.prompt_id, math.nan),
            **exact_columns(computed.loc[prompt.prompt_id]), "floor": np.mean(simulated["replicates"]),
        })  # fmt: skip
    per_prompt = pd.DataFrame(rows)
    metrics, failures = [], {}
    for split, members in per_prompt.groupby("split", sort=False):
        names = {"axis": "structured", "model": model, "condition": condition, "split": split}
        simulated = np.stack(floor.loc[members["prompt_id"], "replicates"].to_list())
        aggregated = aggregate_split(
            members, simulated, seed=config.seed, names=tuple(names.values()), bootstrap_replicates=replicates
        )
        metrics.extend({**names, **_nullable(row)} for row in aggregated)
        failures[split] = failure_counts(members)
    with atomic_directory(output) as directory:
        write_json(directory / "metrics.json", {"metrics": metrics, "failures": failures})
        write_table(directory / "per_prompt.parquet", per_prompt)
        record.write(directory / "provenance.json", num_prompts=len(per_prompt), seed=config.seed)
    headline = {f"{row['split']}/{row['metric']}": row["value"] for row in metrics if not row["family"]}
    _track(config, record, f"eval_structured {model} {condition}", headline, per_prompt)


if __name__ == "__main__":
    parser = stage_parser(__doc__)
    parser.add_argument("--model", required=True, help="model name in params.yaml")
    parser.add_argument("--condition", required=True, help="base, soft or hard")
    parser.add_argument("--prompts", type=Path, nargs="+", required=True, help="prompt tables")
    parser.add_argument("--generations", type=Path, required=True, help="table written by generate")
    parser.add_argument("--scores", type=Path, required=True, help="table written by score_structured")
    parser.add_argument("--exact", type=Path, required=True, help="table written by exact_structured")
    parser.add_argument("--floors", type=Path, required=True, help="table written by floor_structured")
    parser.add_argument("--output", type=Path, required=True, help="directory to write")
    run_stage(main, parser.parse_args())
