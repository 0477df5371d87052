"""What a perfect sampler scores: normalised W1 of draws from each prompt's own law."""

from pathlib import Path

import pandas as pd
from tqdm import tqdm

from pipeline.artifacts.storage import read_prompts, write_table
from pipeline.command import run_stage
from pipeline.config.params import Params, load_params
from pipeline.core.random_streams import random_stream
from pipeline.core.structured.wasserstein import perfect_sampler_replicates
from pipeline.stages.arguments import stage_parser


def sample_sizes(config: Params) -> list[int]:
    """Answers per prompt that the conditions of structured sampling have."""
    generate = config.generate
    baselines = [getattr(generate, name) for name in generate.enabled_baselines]
    # A verbalised request stands for one answer, drawn among its candidates.
    answers = [
        settings.num_samples * (settings.answers_per_request if settings is generate.batch else 1)
        for settings in baselines
    ]
    return sorted({generate.structured.num_samples, *answers})


def main(params: Path, prompts: list[Path], output: Path) -> None:
    """Write ``floor_replicates`` simulated values per prompt, at every sample size of the evaluation."""
    config = load_params(params)
    replicates = config.evaluate.floor_replicates
    rows = []
    for prompt in tqdm(read_prompts(*prompts), desc="perfect-sampler floor", unit="prompt"):
        for size in sample_sizes(config):
            rng = random_stream(config.seed, "floor", "structured", prompt.prompt_id, size)
            rows.append((prompt.prompt_id, size, perfect_sampler_replicates(prompt.law, size, replicates, rng)))
    write_table(output, pd.DataFrame(rows, columns=["prompt_id", "num_samples", "replicates"]))


if __name__ == "__main__":
    parser = stage_parser(__doc__)
    parser.add_argument("--prompts", type=Path, nargs="+", required=True, help="prompt tables")
    parser.add_argument("--output", type=Path, required=True, help="Parquet file to write")
    run_stage(main, parser.parse_args())
