"""Measure what output spaces and prefix tries take to build, prompt by prompt (Table 24)."""

import time
import tracemalloc
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm import tqdm

from pipeline.artifacts.atomic import atomic_directory
from pipeline.artifacts.model_report import model_revision
from pipeline.artifacts.prompts import read_prompts
from pipeline.artifacts.storage import write_json, write_table
from pipeline.core.laws.discretize import discretize
from pipeline.dag.execution import StageRun, command_line
from pipeline.errors import ConfigError


def measure_construction(build: Callable[[], Any]) -> tuple[Any, float, int]:
    """What is built, the seconds that it takes, and, built once more under tracemalloc, the peak in bytes."""
    started = time.perf_counter()
    built = build()
    seconds = time.perf_counter() - started
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        build()
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    return built, seconds, max(0, peak)


def main(run: StageRun, model: str, model_report: Path, space: str, prompts: list[Path], output: Path) -> None:
    """Write ``summary.json`` (mean seconds over prompts, and the worst prompt's peak), and ``per_prompt.parquet``."""
    from pipeline.engines.loading.digit_rule import answer_tokens, tries_of
    from pipeline.engines.loading.model import load_tokenizer

    config, settings = run.params.models[model], asdict(getattr(run.params.discretize, space))
    if settings["max_bins"] is None:
        raise ConfigError(f"discretize.{space}.max_bins is null: nothing is built whose cost could be measured")
    tokenizer = load_tokenizer(config, model_revision(model_report))
    terminator, tokens = answer_tokens(tokenizer, config.terminator, settings["num_decimals"])
    measured = []
    for prompt in tqdm(read_prompts(*prompts), desc="profile construction", unit="prompt"):
        built, *of_space = measure_construction(lambda law=prompt.law: discretize(law, **settings))
        spaces = {prompt.prompt_id: built}
        _, *of_trie = measure_construction(lambda spaces=spaces: dict(tries_of(tokenizer, tokens, terminator, spaces)))
        measured.append((prompt.prompt_id, *of_space, *of_trie))
    things = ("output_space", "trie")
    columns = [f"{thing}_{what}" for thing in things for what in ("seconds", "peak_bytes")]
    table, summary = pd.DataFrame(measured, columns=["prompt_id", *columns]), {}
    for thing in things:
        summary[f"{thing}_mean_seconds"] = float(table[f"{thing}_seconds"].mean())
        summary[f"{thing}_peak_mb"] = float(table[f"{thing}_peak_bytes"].max()) / 1e6
    with atomic_directory(output) as directory:
        write_json(directory / "summary.json", summary)
        write_table(directory / "per_prompt.parquet", table)
        run.write_record(directory)


if __name__ == "__main__":
    command_line()
