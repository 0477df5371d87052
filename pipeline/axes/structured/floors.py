"""What a perfect sampler scores: normalised W1 of draws from each prompt's own law."""

from pathlib import Path

import pandas as pd
from tqdm import tqdm

from pipeline.artifacts.prompts import read_prompts
from pipeline.artifacts.storage import write_table
from pipeline.axes.structured.wasserstein import perfect_sampler_replicates
from pipeline.config.evaluation import GenerateAxes, enabled_baselines
from pipeline.core.random_streams import random_stream
from pipeline.dag.execution import StageRun, command_line


def sample_sizes(generate: GenerateAxes) -> list[int]:
    """Answers per prompt that the conditions of structured sampling have."""
    answers = [
        # A verbalised request stands for one answer, drawn among its candidates.
        getattr(generate, name).num_samples * (generate.batch.answers_per_request if name == "batch" else 1)
        for name in enabled_baselines(generate)
    ]
    return sorted({generate.structured.num_samples, *answers})


def main(run: StageRun, prompts: list[Path], output: Path) -> None:
    """Write ``floor_replicates`` simulated values per prompt, at every sample size of the evaluation."""
    replicates, sizes = run.params.evaluate.floor_replicates, sample_sizes(run.params.generate)
    rows = []
    for prompt in tqdm(read_prompts(*prompts), desc="perfect-sampler floor", unit="prompt"):
        for size in sizes:
            rng = random_stream(run.params.seed, "floor", "structured", prompt.prompt_id, size)
            rows.append((prompt.prompt_id, size, perfect_sampler_replicates(prompt.law, size, replicates, rng)))
    write_table(output, pd.DataFrame(rows, columns=["prompt_id", "num_samples", "replicates"]))
    run.write_record(num_samples=sizes)


if __name__ == "__main__":
    command_line()
