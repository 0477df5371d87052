"""Sample answers of one model under one condition.

Finished prompts are kept in ``--partial`` until the table is written, so a killed run
continues where it stopped. A sample depends on its own seed only.
"""

import shutil
from dataclasses import asdict
from pathlib import Path

import pandas as pd
from tqdm import tqdm

from pipeline.artifacts import GENERATION_COLUMNS, read_prompts, read_table, write_table
from pipeline.command import run_stage
from pipeline.config import load_params
from pipeline.provenance import StageRecord
from pipeline.stages.arguments import add_condition, add_model, stage_parser
from pipeline.stages.conditioned_model import adapter_inputs, open_model


def main(
    params: Path, axis: str, model: str, model_report: Path, condition: str, adapters: Path, prompts: list[Path],
    output: Path, partial: Path,
) -> None:  # fmt: skip
    """Write the generations of every prompt in ``prompts``."""
    from pipeline.engines.generate import generate, sample_seeds

    config = load_params(params)
    settings = getattr(config.generate, axis)
    # Which rows the model runs together is not part of what is computed.
    sampling = {key: value for key, value in asdict(settings).items() if key not in ("batch_size", "strategy")}
    record = StageRecord(
        f"generate_{axis}",
        {"seed": config.seed, "model": config.model(model), "condition": condition, "sampling": sampling},
        [model_report, *prompts, *adapter_inputs(condition, adapters)],
    )
    rows = read_prompts(*prompts)
    finished = partial / record.identity[:16]
    opened = None
    tables = []
    for prompt in tqdm(rows, desc=f"generate {axis} {model} {condition}", unit="prompt"):
        path = finished / f"{prompt.prompt_id}.parquet"
        if not path.exists():
            opened = opened or open_model(config.model(model), model_report, condition, adapters, rows[0].text)
            seeds = sample_seeds(config.seed, (axis, model, condition, prompt.prompt_id), settings.num_samples)
            answers = generate(
                opened.model, opened.tokenizer, opened.encode(prompt.text), seeds, stop_ids=opened.stop_ids,
                max_new_tokens=settings.max_new_tokens, temperature=settings.temperature, top_p=settings.top_p,
                batch_size=settings.batch_size, strategy=settings.strategy,
            )  # fmt: skip
            table = pd.DataFrame([asdict(answer) for answer in answers])
            table.insert(0, "prompt_id", prompt.prompt_id)
            table.insert(1, "sample_index", range(len(answers)))
            write_table(path, table[list(GENERATION_COLUMNS)])
        tables.append(read_table(path, GENERATION_COLUMNS))
    write_table(output, pd.concat(tables, ignore_index=True))
    record.write(output.with_suffix(".provenance.json"), num_generations=sum(map(len, tables)), seed=config.seed)
    shutil.rmtree(partial, ignore_errors=True)


if __name__ == "__main__":
    parser = stage_parser(__doc__)
    parser.add_argument("--axis", required=True, choices=["structured"], help="evaluation axis, a key of `generate`")
    add_model(parser)
    add_condition(parser)
    parser.add_argument("--prompts", type=Path, nargs="+", required=True, help="prompt tables")
    parser.add_argument("--output", type=Path, required=True, help="Parquet file to write")
    parser.add_argument("--partial", type=Path, required=True, help="directory for the prompts of an unfinished run")
    run_stage(main, parser.parse_args())
