"""Discretise each prompt's law into canonical number strings with probabilities (Appendix B.1)."""

from dataclasses import asdict
from pathlib import Path

from tqdm import tqdm

from pipeline.artifacts.storage import read_prompts, write_output_spaces
from pipeline.command import run_stage
from pipeline.config.params import load_params
from pipeline.core.laws.discretize import discretize_all
from pipeline.errors import ConfigError
from pipeline.stages.arguments import stage_parser


def main(params: Path, space: str, prompts: list[Path], output: Path) -> None:
    """Write the output space of every prompt in ``prompts`` under the settings named ``space``."""
    settings = asdict(getattr(load_params(params).discretize, space))
    if settings["max_bins"] is None:
        raise ConfigError(f"discretize.{space}.max_bins is null: the rounded law has no list of strings to write")
    rows = read_prompts(*prompts)
    made = discretize_all([prompt.law for prompt in rows], **settings)
    progress = tqdm(zip(rows, made, strict=True), total=len(rows), desc=f"discretize {space}", unit="prompt")
    write_output_spaces(output, {prompt.prompt_id: space for prompt, space in progress})


if __name__ == "__main__":
    parser = stage_parser(__doc__)
    parser.add_argument("--space", required=True, choices=["soft", "hard", "eval"], help="settings in params.yaml")
    parser.add_argument("--prompts", type=Path, nargs="+", required=True, help="prompt tables")
    parser.add_argument("--output", type=Path, required=True, help="Parquet file to write")
    run_stage(main, parser.parse_args())
