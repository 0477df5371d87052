"""Measure what output spaces and prefix tries take to build, prompt by prompt (Table 24)."""

from dataclasses import asdict
from pathlib import Path

import pandas as pd
from tqdm import tqdm

from pipeline.artifacts.atomic import atomic_directory
from pipeline.artifacts.model_report import model_revision
from pipeline.artifacts.prompts import read_prompts
from pipeline.artifacts.storage import write_json, write_table
from pipeline.core.laws.discretize import discretize
from pipeline.dag.execution import StageRun, command_line
from pipeline.errors import ConfigError
from pipeline.stages.construction_cost import construction_summary, measure_construction


def main(run: StageRun, model: str, model_report: Path, space: str, prompts: list[Path], output: Path) -> None:
    """Write ``summary.json``, ``per_prompt.parquet`` and ``provenance.json``."""
    from pipeline.engines.loading.digit_rule import answer_tokens, tries_of
    from pipeline.engines.loading.model import load_tokenizer

    config, settings = run.params.models[model], asdict(getattr(run.params.discretize, space))
    if settings["max_bins"] is None:
        raise ConfigError(f"discretize.{space}.max_bins is null: nothing is built whose cost could be measured")
    tokenizer = load_tokenizer(config, model_revision(model_report))
    terminator, tokens = answer_tokens(tokenizer, config.terminator, settings["num_decimals"])
    rows = read_prompts(*prompts)
    measured: dict[str, list] = {"output_space": [], "trie": []}
    for prompt in tqdm(rows, desc="profile construction", unit="prompt"):
        built, cost = measure_construction(lambda law=prompt.law: discretize(law, **settings))
        measured["output_space"].append(cost)
        spaces = {prompt.prompt_id: built}
        _, cost = measure_construction(lambda spaces=spaces: dict(tries_of(tokenizer, tokens, terminator, spaces)))
        measured["trie"].append(cost)
    table = pd.DataFrame({"prompt_id": [prompt.prompt_id for prompt in rows]})
    for name, costs in measured.items():
        table[f"{name}_seconds"] = [cost.seconds for cost in costs]
        table[f"{name}_peak_bytes"] = [cost.peak_bytes for cost in costs]
    with atomic_directory(output) as directory:
        write_json(directory / "summary.json", construction_summary(measured))
        write_table(directory / "per_prompt.parquet", table)
        run.write_record(directory, num_prompts=len(rows))


if __name__ == "__main__":
    command_line()
