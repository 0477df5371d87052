"""What a perfect sampler scores: normalised W1 of draws from each prompt's own law."""

from pathlib import Path

import pandas as pd
from tqdm import tqdm

from pipeline.artifacts import read_prompts, write_table
from pipeline.command import run_stage
from pipeline.config import load_params
from pipeline.core.metrics.structured import perfect_sampler_replicates
from pipeline.core.random_streams import random_stream
from pipeline.stages.arguments import stage_parser


def main(params: Path, prompts: list[Path], output: Path) -> None:
    """Write ``floor_replicates`` simulated values per prompt, at the sample size of the evaluation."""
    config = load_params(params)
    size, replicates = config.generate.structured.num_samples, config.evaluate.floor_replicates
    rows = []
    for prompt in tqdm(read_prompts(*prompts), desc="perfect-sampler floor", unit="prompt"):
        rng = random_stream(config.seed, "floor", "structured", prompt.prompt_id)
        rows.append((prompt.prompt_id, size, perfect_sampler_replicates(prompt.law, size, replicates, rng)))
    write_table(output, pd.DataFrame(rows, columns=["prompt_id", "num_samples", "replicates"]))


if __name__ == "__main__":
    parser = stage_parser(__doc__)
    parser.add_argument("--prompts", type=Path, nargs="+", required=True, help="prompt tables")
    parser.add_argument("--output", type=Path, required=True, help="Parquet file to write")
    run_stage(main, parser.parse_args())
