"""Discretise each prompt's law into canonical number strings with probabilities (Appendix B.1)."""

from dataclasses import asdict
from pathlib import Path

from tqdm import tqdm

from pipeline.artifacts import read_prompts, write_output_spaces
from pipeline.command import run_stage
from pipeline.config import load_params
from pipeline.core.discretize import discretize
from pipeline.stages.arguments import stage_parser


def main(params: Path, space: str, prompts: list[Path], output: Path) -> None:
    """Write the output space of every prompt in ``prompts`` under the settings named ``space``."""
    settings = asdict(getattr(load_params(params).discretize, space))
    spaces = {
        prompt.prompt_id: discretize(prompt.law, **settings)
        for prompt in tqdm(read_prompts(*prompts), desc=f"discretize {space}", unit="prompt")
    }
    write_output_spaces(output, spaces)


if __name__ == "__main__":
    parser = stage_parser(__doc__)
    parser.add_argument("--space", required=True, choices=["soft", "hard", "eval"], help="settings in params.yaml")
    parser.add_argument("--prompts", type=Path, nargs="+", required=True, help="prompt tables")
    parser.add_argument("--output", type=Path, required=True, help="Parquet file to write")
    run_stage(main, parser.parse_args())
