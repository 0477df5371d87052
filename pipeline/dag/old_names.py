"""What stages of earlier versions are called now: ``python -m pipeline.dag.old_names NAME`` fails with today's name."""

import argparse
from pathlib import Path

from pipeline.command import run_command
from pipeline.config.params import load_params
from pipeline.dag.graph import StageGraph


def main(names: list[str], params: Path) -> None:
    """Raise ConfigError for a name of which there is no stage, with today's name of what it was."""
    StageGraph(load_params(params)).select(names)


def parse_arguments() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", help="names of stages, e.g. train_soft@embedded")
    parser.add_argument("--params", type=Path, default=Path("params.yaml"), help="default: %(default)s")
    return parser.parse_args()


if __name__ == "__main__":
    run_command(main, parse_arguments(), kept=None)
