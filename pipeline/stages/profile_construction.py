"""Measure what output spaces and prefix tries take to build, prompt by prompt (Table 24)."""

from dataclasses import asdict
from pathlib import Path

import pandas as pd
from tqdm import tqdm

from pipeline.artifacts.storage import atomic_directory, read_prompts, write_json, write_table
from pipeline.command import run_stage
from pipeline.config.params import load_params
from pipeline.core.laws.discretize import discretize
from pipeline.errors import ConfigError
from pipeline.record.provenance import StageRecord
from pipeline.report.ablations.construction_cost import construction_summary, measure_construction
from pipeline.stages.arguments import add_model, stage_parser
from pipeline.stages.check_model import model_revision


def main(params: Path, model: str, model_report: Path, space: str, prompts: list[Path], output: Path) -> None:
    """Write ``summary.json``, ``per_prompt.parquet`` and ``provenance.json``."""
    from pipeline.engines.loading import chat
    from pipeline.engines.loading.digit_rule import find_digit_tokens, tries_of
    from pipeline.engines.loading.model import load_tokenizer

    config = load_params(params)
    settings = asdict(getattr(config.discretize, space))
    if settings["max_bins"] is None:
        raise ConfigError(f"discretize.{space}.max_bins is null: nothing is built whose cost could be measured")
    record = StageRecord("profile_construction", {"model": model, "discretize": settings}, [model_report, *prompts])
    tokenizer = load_tokenizer(config.model(model), model_revision(model_report))
    terminator = chat.answer_terminator(tokenizer, config.model(model).terminator)
    tokens = find_digit_tokens(tokenizer, terminator, settings["num_decimals"])
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
        record.write(directory / "provenance.json", num_prompts=len(rows))


if __name__ == "__main__":
    parser = stage_parser(__doc__)
    add_model(parser)
    parser.add_argument("--space", required=True, choices=["soft", "eval"], help="settings in params.yaml")
    parser.add_argument("--prompts", type=Path, nargs="+", required=True, help="prompt tables")
    parser.add_argument("--output", type=Path, required=True, help="directory to write")
    run_stage(main, parser.parse_args())
