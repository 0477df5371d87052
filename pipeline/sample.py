"""Draw answers from a trained condition of params.yaml, or from any checkpoint: ``python -m pipeline.sample``.

A request whose text is that of a structured prompt, or of one of the laws of params.yaml, has a law that is known:
answers are shown beside it, with normalised W1 (total variation, where they are no numbers), its interval and what a
perfect sampler scores. Of any other request the commonest answers are shown.
Where standard output is a pipe, the answers go there, one per line, and the summary to standard error.

With the settings of params.yaml, the answers are those of the stage generate, whatever the batch size.
"""

import argparse
import csv
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from tqdm import tqdm

from pipeline.artifacts.atomic import atomic_path
from pipeline.artifacts.json_lines import write_json_lines
from pipeline.command import run_command
from pipeline.config.params import load_params
from pipeline.core.exact.number_law import NumberLawBounds
from pipeline.core.prompts.structured import make_prompt
from pipeline.errors import ConfigError
from pipeline.inference import opening, sampling

FORMATS = (".csv", ".jsonl")


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
    """Raise ConfigError for a value that is not allowed; to be called before anything is loaded."""
    if (options.prompt is None) == (options.law is None):
        raise ConfigError("give a request, or --law FAMILY NAME=VALUE ..., and not both")
    try:
        (options.prompt or "").encode()
    except UnicodeError:
        raise ConfigError("the request is no text in UTF-8") from None
    for name, value, least, most in (
        ("--num-samples", options.num_samples, 1, 10**6),
        ("--seed", options.seed, 0, 2**63 - 1),
        ("--max-new-tokens", options.max_new_tokens, 1, 10**6),
        ("--batch-size", options.batch_size, 1, 10**6),
        ("--temperature", options.temperature, 0, 1e6),
        ("--top-p", options.top_p, 1e-9, 1),
    ):
        if value is not None and not least <= value <= most:
            raise ConfigError(f"{name}: {value:g} is not between {least:g} and {most:g}")
    if options.exact:
        for name in ("num_samples", "seed", "temperature", "top_p", "output", "batch_size"):
            if getattr(options, name) is not None:
                raise ConfigError(
                    f"--exact computes the law at temperature 1; --{name.replace('_', '-')} is for samples"
                )
    if options.output is not None:
        if options.output.suffix not in FORMATS:
            raise ConfigError(f"--output: {options.output} ends in neither of {', '.join(FORMATS)}")
        if not options.output.absolute().parent.is_dir():
            raise ConfigError(f"--output: the directory {options.output.parent} does not exist")


def write_samples(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows in the format that the file's name says. Raises StorageError."""
    if path.suffix == ".jsonl":
        return write_json_lines(path, rows)
    with atomic_path(path) as temporary:
        # Quoted, because an answer may hold any kind of line break.
        pd.DataFrame(rows).to_csv(
            temporary, index=False, quoting=csv.QUOTE_NONNUMERIC, encoding="utf-8", errors="backslashreplace"
        )


def _print_lines(rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Print every answer as it comes, until nobody reads on."""
    from pipeline.inference.terminal import one_line

    for row in rows:
        yield row
        try:
            print(one_line(row["text"]), flush=True)
        except BrokenPipeError:
            # Python flushes standard output once more when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return


def main(**given: Any) -> None:
    """Draw, or compute, and show.

    Raises:
        PipelineError: See ``check_options``, ``opening`` and ``sampling.sample_request``.
    """
    options = argparse.Namespace(**given)
    check_options(options)
    params = load_params(options.params)
    request = sampling.Request.of(structured_text(options.law) if options.law else options.prompt, params)
    if options.exact and request.axis != "structured":
        raise ConfigError(
            "--exact needs a structured request, whose answers are numbers; --law writes one, and the axis laws "
            "computes what laws of one's own are answered with"
        )
    weights = opening.find_weights(params, options.model, options.condition, options.adapter, str(options.params))
    loaded = opening.open_weights(weights, request.text)
    from pipeline.engines.sampling.transformers_engine import TransformersEngine
    from pipeline.inference import terminal

    if options.exact:
        with tqdm(total=params.evaluate.bounds_max_positions, unit="prefix", disable=None) as bar:

            def on_round(bounds: NumberLawBounds) -> None:
                bar.update(bounds.positions - bar.n)

            bounds = sampling.exact_bounds(request, weights, loaded, params, options.max_new_tokens, on_round)
        return terminal.show_bounds(Console(), weights.name, request.text, request.prompt.law, bounds)
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
    progress = tqdm(sampling.draw(engine, asked), total=len(asked.seeds), unit="sample", disable=None)
    streams = options.output is None and not sys.stdout.isatty()
    drawn, rows, interrupted = map(request.row, progress), [], False
    try:
        rows.extend(_print_lines(drawn) if streams else drawn)
    except KeyboardInterrupt:
        # What was drawn is a sample all the same, if a smaller one.
        if not rows:
            raise
        interrupted = True
    if options.output is not None:
        write_samples(options.output, rows)
    console = Console(stderr=streams)
    texts = [row["text"] for row in rows]
    if request.prompt is None:
        terminal.show_answers(console, weights.name, request.text, rows)
    elif request.is_categorical:
        found = sampling.categories(request.prompt, weights, params, texts)
        terminal.show_categories(console, weights.name, request.text, request.prompt, found, rows)
    else:
        found = sampling.distance(request.prompt, weights, params, texts)
        terminal.show_distance(console, weights.name, request.text, request.prompt, found, rows)
    if interrupted:
        raise KeyboardInterrupt


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
    parser.add_argument("-n", "--num-samples", type=int, help="answers (default: as in params.yaml, generate)")
    parser.add_argument("--seed", type=int, help="root of the answers' random streams (default: sampling_seed)")
    parser.add_argument("--temperature", type=float, help="0 takes the most probable token (default: params.yaml)")
    parser.add_argument("--top-p", type=float, help="nucleus mass (default: params.yaml)")
    parser.add_argument("--max-new-tokens", type=int, help="longest answer in tokens (default: params.yaml)")
    parser.add_argument(
        "--batch-size", type=int, help="rows decoded together; changes no answer (default: params.yaml)"
    )
    parser.add_argument(
        "--exact", action="store_true", help="compute the law of the answers, with bounds; draw nothing"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the answers, as .csv or .jsonl")
    return parser.parse_args()


if __name__ == "__main__":
    run_command(main, parse_arguments(), kept=None)
