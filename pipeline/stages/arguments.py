"""Command-line arguments that several stages take."""

import argparse
from pathlib import Path

from pipeline.config.evaluation import BASELINES
from pipeline.config.params import CONDITIONS


def stage_parser(description: str) -> argparse.ArgumentParser:
    """A parser with ``--params``; ``description`` is the stage module's docstring."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--params", type=Path, default=Path("params.yaml"), help="composed parameters (default: %(default)s)"
    )
    return parser


def add_condition_name(parser: argparse.ArgumentParser) -> None:
    """``--model`` and ``--condition``, by name."""
    conditions = ", ".join((*CONDITIONS, *BASELINES))
    parser.add_argument("--model", required=True, help="model name in params.yaml")
    parser.add_argument("--condition", required=True, help=f"one of {conditions}, as far as the stage has it")


def add_model_report(parser: argparse.ArgumentParser) -> None:
    """The report that check_model wrote for the model."""
    parser.add_argument("--model-report", type=Path, required=True, help="JSON file written by check_model")


def add_model(parser: argparse.ArgumentParser) -> None:
    """``--model`` and its report."""
    parser.add_argument("--model", required=True, help="model name in params.yaml")
    add_model_report(parser)


def add_condition(parser: argparse.ArgumentParser) -> None:
    """What the stages take that load a model under a condition."""
    add_condition_name(parser)
    add_model_report(parser)
    parser.add_argument("--adapters", type=Path, required=True, help="directory of the model's adapters, by method")


def add_evaluation(parser: argparse.ArgumentParser) -> None:
    """What the stages take that work on a condition's samples without its model."""
    add_condition_name(parser)
    parser.add_argument("--prompts", type=Path, nargs="+", required=True, help="prompt tables")
    parser.add_argument("--output", type=Path, required=True, help="directory to write")


def add_generations(parser: argparse.ArgumentParser) -> None:
    """``--generations``."""
    parser.add_argument("--generations", type=Path, required=True, help="table written by generate")


def add_scoring(parser: argparse.ArgumentParser) -> None:
    """What the stages take that score a condition on the evaluation output space."""
    add_condition(parser)
    parser.add_argument("--prompts", type=Path, nargs="+", required=True, help="prompt tables")
    parser.add_argument("--tries", type=Path, required=True, help="tries of the evaluation output space")
    parser.add_argument("--output", type=Path, required=True, help="Parquet file to write")
    parser.add_argument("--partial", type=Path, required=True, help="directory for the prompts of an unfinished run")


def add_training(parser: argparse.ArgumentParser) -> None:
    """What both training stages take besides their targets."""
    add_model(parser)
    parser.add_argument("--prompts", type=Path, required=True, help="training prompts")
    parser.add_argument("--output", type=Path, required=True, help="adapter directory to write")
    parser.add_argument("--checkpoint", type=Path, required=True, help="directory for the state of an unfinished run")
