"""Draw answers from a trained condition of params.yaml, or from any checkpoint: ``python -m pipeline.sample``.

Answers to a structured prompt, or to one of the laws over numbers of params.yaml, are compared with the law: quantiles,
and normalised W1 with its interval and what a perfect sampler scores. Of any other request the commonest answers are
shown. Where standard output is a pipe, the answers go there, one per line, and the summary to standard error.

With the settings of params.yaml, the answers are those of the stage generate, whatever the batch size.
"""

import argparse
import csv
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text
from tqdm import tqdm

from pipeline.artifacts.atomic import atomic_path
from pipeline.axes.structured.fidelity import wasserstein_1_deviations
from pipeline.axes.structured.wasserstein import evaluate_prompt, perfect_sampler_replicates
from pipeline.command import run_command
from pipeline.commands import parse_arguments
from pipeline.config.evaluation import GenerateConfig
from pipeline.config.params import Params, load_params
from pipeline.core.laws.cells import line_of, line_shares
from pipeline.core.laws.finite_law import FiniteLaw
from pipeline.core.laws.quantiles import quantile
from pipeline.core.prompts.number_answers import Invalid, parse_sample
from pipeline.core.prompts.open_ended import open_prompt
from pipeline.core.prompts.structured import Prompt, make_prompt, parse_prompt
from pipeline.core.prompts.text_answers import normalise_answer
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.intervals import interval_of_deviations, percentile_interval, wilson_interval
from pipeline.errors import ConfigError
from pipeline.inference import opening
from pipeline.sources.own_laws import own_prompts

if TYPE_CHECKING:
    from pipeline.engines.sampling.text_engine import Sample, SampleRequest, TextEngine

BLOCK = 256  # samples that are drawn before any is handed on
COMMONEST = 20  # answers that are listed at most
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)  # of the quantiles that are shown
Rows = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Request:
    """A request for answers, with its prompt over numbers, if any; ``axis`` says whose random streams it has."""

    text: str
    prompt: Prompt | None
    axis: str

    @classmethod
    def of(cls, text: str, params: Params) -> "Request":
        """The request with this text. Raises PipelineError for a law that does not exist or cannot be read."""
        _, own = own_prompts(params.laws)
        for prompt in own:
            numeric = not isinstance(prompt.law, FiniteLaw) or prompt.law.values is not None
            if prompt.text == text.strip() and numeric:
                return cls(text, prompt, "laws")
        return cls(text, prompt := parse_prompt(text), "structured" if prompt else "open")

    def settings(self, params: Params) -> GenerateConfig:
        """The sampling settings that are the defaults."""
        return params.generate.structured if self.prompt else params.generate.open

    def row(self, sample: "Sample") -> dict[str, Any]:
        """A sample as a row of a file: what was generated, and the answer in it or why there is none."""
        generation, prompt = sample.generation, self.prompt
        if prompt is None:
            answer = normalise_answer(generation.text)
        else:
            answer = parse_sample(generation.text, prompt.support, prompt.law.integer)
        invalid = answer.value if isinstance(answer, Invalid) else None
        return {
            "sample_index": sample.sample_index,
            **asdict(generation),
            "answer": None if invalid else answer,
            "invalid": invalid,
        }


def sample_request(
    request: Request, weights: opening.Weights, loaded: Any, params: Params, options: argparse.Namespace
) -> "SampleRequest":
    """What the engine is asked for; an option that is None is the stage's. Raises ConfigError for a long request."""
    from pipeline.engines.sampling.generate import sample_seeds
    from pipeline.engines.sampling.text_engine import SampleRequest, sampling_law

    settings = request.settings(params)
    most = options.max_new_tokens or settings.max_new_tokens
    given = {"temperature": options.temperature, "top_p": options.top_p}
    law = sampling_law(settings, weights.config) | {key: value for key, value in given.items() if value is not None}
    if law["temperature"] == 0:
        law |= {"temperature": 1.0, "top_k": 1}
    ids, limit = loaded.encode(request.text), opening.context_length(loaded)
    if limit is not None and len(ids) + most > limit:
        raise ConfigError(
            f"the request has {len(ids)} tokens and its answer up to {most} (--max-new-tokens); "
            f"{weights.model} takes {limit} together"
        )
    # As the pipeline names the prompt, and so its random streams.
    name = (request.prompt or open_prompt(request.text)).prompt_id
    seed = params.sampling_seed if options.seed is None else options.seed
    stream = (request.axis, weights.model, weights.condition, name)
    seeds = sample_seeds(seed, stream, options.num_samples or settings.num_samples)
    return SampleRequest(name, ids, dict(enumerate(seeds)), most, **law)


def draw(engine: "TextEngine", request: "SampleRequest") -> Iterator["Sample"]:
    """The samples of a request in the order of their indices, block by block."""
    seeds = list(request.seeds.items())
    for start in range(0, len(seeds), BLOCK):
        block = replace(request, seeds=dict(seeds[start : start + BLOCK]))
        samples = [sample for part in engine.sample([block]) for sample in part]
        yield from sorted(samples, key=lambda sample: sample.sample_index)


def one_line(text: str) -> str:
    """A text with line breaks and what a terminal would obey as escape sequences."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def _share(count: int, total: int) -> str:
    low, high = wilson_interval(count, total)
    return f"{count / total:.1%} [{low:.1%}, {high:.1%}]"


def compared_with_law(prompt: Prompt, weights: opening.Weights, params: Params, rows: Rows) -> tuple[Table, dict]:
    """Quantiles of the valid answers and of the law, and the figures of eval-structured, with its random streams."""
    result, name = evaluate_prompt([row["text"] for row in rows], prompt.law), prompt.prompt_id
    table, size = Table("quantile", "answers", "target", box=None, pad_edge=False), len(result.samples)
    if not size:
        return table, {"normalised W1": "undefined: no valid answer"}
    drawn = np.quantile(result.samples, LEVELS, method="inverted_cdf")
    for level, own, target in zip(LEVELS, drawn, quantile(prompt.law, np.array(LEVELS)), strict=True):
        table.add_row(f"{level:.0%}", f"{own:.4g}", f"{target:.4g}")
    rng = random_stream(params.seed, "half samples", "structured", weights.model, weights.condition, name)
    deviations = wasserstein_1_deviations(result.samples, prompt.law, rng)
    distance = result.wasserstein_1_normalised
    interval = interval_of_deviations(distance, deviations)
    rng = random_stream(params.seed, "floor", "structured", name, size)
    floors = perfect_sampler_replicates(prompt.law, size, params.evaluate.floor_replicates, rng)
    floor = (floors.mean(), *percentile_interval(floors))
    lines = {}
    if not isinstance(prompt.law, FiniteLaw):
        asked, shares = line_shares(prompt.law, result.samples)
        lines = {"asked": line_of(asked, asked), "answers": line_of(shares, asked)}
    return table, lines | {
        "normalised W1": "{:.3f} [{:.3f}, {:.3f}]".format(distance, *interval),
        f"a perfect sampler at N = {size:,}": "{:.3f}, 95% of them between {:.3f} and {:.3f}".format(*floor),
    }


def commonest(rows: Rows) -> tuple[Table, dict]:
    """The commonest answers, of all answers that are valid or not, and how many others there are."""
    counts = Counter(row["answer"] for row in rows if row["answer"] is not None).most_common()
    table = Table("answer", "count", "share, 95% interval", box=None, pad_edge=False)
    for answer, count in counts[:COMMONEST]:
        table.add_row(Text(one_line(answer)), f"{count:,}", _share(count, len(rows)))
    figures = {"different answers": f"{len(counts):,}"}
    if rest := sum(count for _, count in counts[COMMONEST:]):
        figures["answers that are not listed"] = _share(rest, len(rows))
    return table, figures


def show(console: Console, name: str, text: str, rows: Rows, table: Table, figures: dict[str, str]) -> None:
    """A heading, a table, and figures: how many answers are valid, why others are not, how many were cut, and more."""
    console.print(f"{name}, {len(rows):,} answers to:", one_line(text), markup=False, highlight=False)
    console.print("", table, "", sep="\n")
    reasons = Counter(row["invalid"] for row in rows if row["invalid"] is not None).most_common()
    invalid = ", ".join(f"{reason} {count}" for reason, count in reasons)
    valid = _share(len(rows) - sum(count for _, count in reasons), len(rows))
    shown = {"valid answers": valid + (f"; invalid: {invalid}" if invalid else "")}
    if cut := sum(row["finish_reason"] == "length" for row in rows):
        shown["cut at the limit of tokens"] = f"{cut}"
    grid = Table.grid(padding=(0, 2))
    for title, value in (shown | figures).items():
        grid.add_row(title, Text(value))
    console.print(grid)


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


def write_samples(path: Path, rows: Rows) -> None:
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
            print(one_line(row["text"]), flush=True)
        except BrokenPipeError:
            # Python flushes standard output once more when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return


def main(**given: Any) -> None:
    """Draw and show. Raises PipelineError."""
    options = argparse.Namespace(**given)
    check_options(options)
    params = load_params(options.params)
    request = Request.of(structured_text(options.law) if options.law else options.prompt, params)
    weights = opening.find_weights(params, options.model, options.condition, options.adapter, str(options.params))
    loaded = opening.open_weights(weights, request.text)
    from pipeline.engines.sampling.transformers_engine import TransformersEngine

    asked = sample_request(request, weights, loaded, params, options)
    size = options.batch_size or request.settings(params).batch_size
    engine = TransformersEngine(loaded.model, loaded.tokenizer, loaded.stop_ids, batch_size=size)
    drawn = tqdm(draw(engine, asked), total=len(asked.seeds), unit="sample", disable=None)
    streams = options.output is None and not sys.stdout.isatty()
    rows = list(_print_lines(map(request.row, drawn)) if streams else map(request.row, drawn))
    if options.output is not None:
        write_samples(options.output, rows)
    shown = compared_with_law(request.prompt, weights, params, rows) if request.prompt else commonest(rows)
    show(Console(stderr=streams), weights.name, request.text, rows, *shown)


if __name__ == "__main__":
    run_command(main, parse_arguments("pipeline.sample"), kept=None)
