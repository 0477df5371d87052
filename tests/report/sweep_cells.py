"""Fabricated sweeps: cells of the shape that ``pipeline.sweep`` leaves."""

import math
from pathlib import Path

import pandas as pd

from pipeline.artifacts.storage import write_json, write_table
from pipeline.report.ablations import Design
from tests.report.conftest import W1, metric_row, write_fabricated

OTHERS = {"prompts.train_prompts_per_family": 16, "train.learning_rate": 0.004}


def write_cell(
    sweeps: Path,
    design: Design,
    setting,
    seed,
    wasserstein,
    *,
    model="embedded",
    others=OTHERS,
    samples=None,
    finished=True,
) -> Path:
    """One cell whose OOD W1 is given; on unseen parameters it is twice that. NaN is undefined."""
    name = "-".join(map(str, (*setting, seed, model, *others.values())))
    directory = sweeps / design.sweep / name.replace("/", "")
    rows, undefined = [], int(math.isnan(wasserstein))
    for split, factor in (("ood", 1), ("unseen", 2)):
        names = ("structured", model, design.condition, split)
        rows.append(metric_row(*names, W1, factor * wasserstein, floor=0.02, undefined=undefined))
        rows.append(metric_row(*names, "valid_rate", 0.9))
    tables = {} if samples is None else {"samples": samples}
    write_fabricated(directory / "artifacts" / "evals", rows, **tables)
    # As stages name their parameters: some are whole sections.
    parameters = {"seed": seed, **others, f"models.{model}": {"display_name": "Shown", "dtype": "float32"}}
    parameters |= dict(zip(design.factors, setting, strict=True))
    write_json(directory / "cell.json", {"overrides": [], "targets": [], "parameters": parameters})
    if finished:
        write_json(directory / "finished.json", {"identity": "0" * 64, "seconds": 1.0})
    return directory


def write_construction(sweeps: Path, num_decimals, max_bins, seconds, peaks, tokenizer="embedded") -> Path:
    """One cell of the construction sweep; tries take ten times what output spaces take."""
    directory = sweeps / "construction_cost" / f"{tokenizer}-{num_decimals}-{max_bins}"
    table = pd.DataFrame(
        {
            "prompt_id": [f"p{place}" for place in range(len(seconds))],
            "output_space_seconds": seconds,
            "output_space_peak_bytes": peaks,
            "trie_seconds": [10 * value for value in seconds],
            "trie_peak_bytes": [10 * value for value in peaks],
        }
    )
    output = directory / "artifacts" / "construction" / f"{tokenizer}-soft"
    output.mkdir(parents=True)
    write_table(output / "per_prompt.parquet", table)
    parameters = {"discretize.soft": {"num_decimals": num_decimals, "max_bins": max_bins}, "seed": 0}
    write_json(directory / "cell.json", {"overrides": [], "targets": [], "parameters": parameters})
    write_json(directory / "finished.json", {"identity": "0" * 64, "seconds": 1.0})
    return directory
