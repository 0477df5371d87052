"""Draw answers from a trained condition of params.yaml, or from any checkpoint: ``python -m pipeline.sample``.

Answers to a structured prompt, or to one of the laws over numbers of params.yaml, are shown beside the law, with
normalised W1, its interval and what a perfect sampler scores. Of any other request the commonest answers are shown.
Where standard output is a pipe, the answers go there, one per line, and the summary to standard error.

With the settings of params.yaml, the answers are those of the stage generate, whatever the batch size.
"""

import argparse
import csv
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from tqdm import tqdm

from pipeline.artifacts.atomic import atomic_path
from pipeline.command import run_command
from pipeline.config.params import load_params
from pipeline.core.prompts.structured import make_prompt
from pipeline.errors import ConfigError
from pipeline.inference import opening, sampling, terminal


def structured_text(law: list[str]) -> str:
    """The request for a law given as FAMILY NAME=VALUE ... Raises ConfigError or DomainError."""
    family, *pairs = law
    try:
        values = {name: float(value) for name, value in (pair.split("=") for pair in pairs)}
    except ValueError:
        raise ConfigError(
            f"--law: {' '.join(law)} is not FAMILY NAME=VALUE ..., e.g. gaussian mu=3.5 sigma=3.0"
        ) from None
    return make_prompt(family, values, "").text


def check_options(options: argparse.Namespace) -> None:
    """Raise ConfigError for what is not allowed; to be called before anything is loaded."""
    if (options.prompt is None) == (options.law is None):
        raise ConfigError("give a request, or --law FAMILY NAME=VALUE ..., and not both")
    try:
        (options.prompt or "").encode()
    except UnicodeError:
        raise ConfigError("the request is no text in UTF-8") from None
    if (output := options.output) is not None:
        if output.suffix not in (".csv", ".jsonl"):
            raise ConfigError(f"--output: {output} ends in neither of .csv, .jsonl")
        if not output.absolute().parent.is_dir():
            raise ConfigError(f"--output: the directory {output.parent} does not exist")


def write_samples(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows in the format that the file's name says. Raises StorageError."""
    table = pd.DataFrame(rows)
    with atomic_path(path) as temporary:
        if path.suffix == ".jsonl":
            table.to_json(temporary, orient="records", lines=True)
        else:
            # Quoted, because an answer may hold any kind of line break.
            table.to_csv(temporary, index=False, quoting=csv.QUOTE_NONNUMERIC, errors="backslashreplace")


def _print_lines(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Print every answer as it comes, until nobody reads on."""
    for row in rows:
        yield row
        try:
            print(terminal.one_line(row["text"]), flush=True)
        except BrokenPipeError:
            # Python flushes standard output once more when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return


def main(**given: Any) -> None:
    """Draw and show. Raises PipelineError."""
    options = argparse.Namespace(**given)
    check_options(options)
    params = load_params(options.params)
    request = sampling.Request.of(structured_text(options.law) if options.law else options.prompt, params)
    weights = opening.find_weights(params, options.model, options.condition, options.adapter, str(options.params))
    loaded = opening.open_weights(weights, request.text)
    from pipeline.engines.sampling.transformers_engine import TransformersEngine

    settings = request.settings(params)
    asked = sampling.sample_request(
        request,
        weights,
        loaded,
        params,
        options.num_samples or settings.num_samples,
        params.sampling_seed if options.seed is None else options.seed,
        temperature=options.temperature,
        top_p=options.top_p,
        max_new_tokens=options.max_new_tokens,
    )
    size = options.batch_size or settings.batch_size
    engine = TransformersEngine(loaded.model, loaded.tokenizer, loaded.stop_ids, batch_size=size)
    drawn = tqdm(sampling.draw(engine, asked), total=len(asked.seeds), unit="sample", disable=None)
    streams = options.output is None and not sys.stdout.isatty()
    rows = list(_print_lines(map(request.row, drawn)) if streams else map(request.row, drawn))
    if options.output is not None:
        write_samples(options.output, rows)
    console, texts = Console(stderr=streams), [row["text"] for row in rows]
    if request.prompt is None:
        terminal.show_answers(console, weights.name, request.text, rows)
    else:
        found = sampling.distance(request.prompt, weights, params, texts)
        terminal.show_distance(console, weights.name, request.text, request.prompt, found, rows)


def parse_arguments() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m pipeline.sample", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("prompt", nargs="?", help="the request, any text")
    parser.add_argument(
        "--law", nargs="+", metavar="WORD", help="ask for a law instead: FAMILY NAME=VALUE ..., e.g. poisson lambda=4"
    )
    opening.add_options(parser)
    number, count = opening.number, opening.number(int, 1, 10**6)
    parser.add_argument("-n", "--num-samples", type=count, help="answers (default: as in params.yaml, generate)")
    parser.add_argument(
        "--seed", type=number(int, 0, 2**63 - 1), help="root of the random streams (default: sampling_seed)"
    )
    parser.add_argument(
        "--temperature", type=number(float, 0, 1e6), help="0 takes the most probable token (default: params.yaml)"
    )
    parser.add_argument("--top-p", type=number(float, 1e-9, 1), help="nucleus mass (default: params.yaml)")
    parser.add_argument("--max-new-tokens", type=count, help="longest answer in tokens (default: params.yaml)")
    parser.add_argument(
        "--batch-size", type=count, help="rows decoded together; changes no answer (default: params.yaml)"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the answers, as .csv or .jsonl")
    return parser.parse_args()


if __name__ == "__main__":
    run_command(main, parse_arguments(), kept=None)
