"""Score models on public benchmarks of sampling: ``python -m pipeline.public BENCHMARK SOURCE``.

The benchmark is taken as others publish it, from a directory; nothing of it is part of this project. Scores are added
to results/public/BENCHMARK.csv, and a table and a figure beside published ones are written below reports/public. First
it is said whether requests that were trained on have anything of the benchmark.
"""

import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Set
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.artifacts.prompts import read_requests
from pipeline.artifacts.storage import sha256_file, sha256_json
from pipeline.command import run_command
from pipeline.commands import parse_arguments
from pipeline.config.params import BASE, Params, load_params
from pipeline.core.statistics.ks_test import NUM_ANSWERS
from pipeline.errors import ConfigError, ModelError, PipelineError
from pipeline.inference import opening
from pipeline.public import failure_to_mix, scores, unpredictabench
from pipeline.public.overlap import overlapping

Rows = list[dict[str, Any]]


def chosen(params: Params, source: str, model: str | None, conditions: list[str] | None) -> list[tuple[str, str]]:
    """Models and conditions to score: those that are named, else all that are there. Raises PipelineError."""
    models, adapters = [model] if model else list(params.models), Path(params.artifacts) / "adapters"
    pairs = [(name, condition) for name in models for condition in conditions or (BASE, *params.methods)]
    if not conditions:
        pairs = [(name, other) for name, other in pairs if other == BASE or (adapters / name / other).is_dir()]
    for name, condition in pairs:
        opening.find_weights(params, name, condition, None, source)
    return pairs


def overlap_line(params: Params, texts: Iterable[str], options: Set[str]) -> str:
    """A sentence on what the requests that params.yaml trains on have in common with a benchmark."""
    path = Path(params.artifacts) / "prompts" / "train.parquet"
    if not path.exists():
        return f"{path} is not there: whether training requests have anything of the benchmark is not known"
    requests = sorted({request.text for request in read_requests(path)})
    found = overlapping(requests, texts, options)
    example = f", e.g. {found[0]!r}" if found else ""
    return f"{len(found)} of {len(requests)} training requests share six words in a row or an option with it{example}"


class Benchmark(NamedTuple):
    """A benchmark that was read, ready to score a model under a condition."""

    score: Callable[[str, str], Rows]
    texts: list[str]
    digest: str
    options: Set[str] = frozenset()
    known: Mapping[str, Rows] = {}
    """Scores that no model is asked for, by name."""


def open_failure_to_mix(options: Namespace) -> Benchmark:
    texts, offered = failure_to_mix.texts_and_options(options.source)

    limits = options.batch_size, options.max_new_tokens

    def score(model: str, condition: str) -> Rows:
        with (
            failure_to_mix.served(options.params, model, condition, *limits) as (address, name),
            tempfile.TemporaryDirectory() as directory,
        ):
            failure_to_mix.ask(options.source, address, name, Path(directory), 60 * options.minutes)
            return failure_to_mix.read_scores(Path(directory))

    return Benchmark(score, texts, sha256_file(failure_to_mix.script_of(options.source)), offered)


def open_unpredictabench(options: Namespace) -> Benchmark:
    config, (problems, left_out) = load_params(options.params), unpredictabench.read_problems(options.source)
    for sentence in left_out:
        print(sentence)

    def score(model: str, condition: str) -> Rows:
        from pipeline.engines.sampling.transformers_engine import TransformersEngine

        weights = opening.find_weights(config, model, condition, None, str(options.params))
        loaded = opening.open_weights(weights, problems[0].text)
        engine = TransformersEngine(loaded.model, loaded.tokenizer, loaded.stop_ids, batch_size=options.batch_size)
        ids = {problem.key: loaded.encode(problem.text) for problem in problems}
        context, stream = opening.context_length(loaded), (config.sampling_seed, "unpredictabench", model, condition)
        answers = unpredictabench.draw_answers(engine, ids, context, options.max_new_tokens, stream)
        return unpredictabench.score(problems, answers)

    content = [[problem.text, problem.truth.tolist()] for problem in problems]
    last = {problem.key: problem.truth[-NUM_ANSWERS:] for problem in problems}
    known = {"Random baseline": unpredictabench.score(problems, last)}
    return Benchmark(score, [problem.text for problem in problems], sha256_json(content), known=known)


OPENED = {"failure_to_mix": open_failure_to_mix, "unpredictabench": open_unpredictabench}


def main(**given: Any) -> None:
    """Score what is chosen, one after another; one that fails is left out. Raises PipelineError."""
    options = Namespace(**given)
    benchmark, config = options.benchmark, load_params(options.params)
    if not options.source.is_dir():
        raise ConfigError(f"SOURCE: {options.source} is no directory; give one with the benchmark {benchmark}")
    pairs = chosen(config, str(options.params), options.model, options.conditions)
    opened = OPENED[benchmark](options)
    print(f"{benchmark}: {overlap_line(config, opened.texts, opened.options)}", flush=True)
    table, failed = options.results / f"{benchmark}.csv", []

    def record(name: str, condition: str, rows: Rows) -> None:
        run = {"model": name, "condition": condition, "seed": config.train_seed, "source": opened.digest[:12]}
        scores.record(table, [run | row for row in rows])

    for name, rows in opened.known.items():
        record(name, "", rows)
    for place, (name, condition) in enumerate(pairs, 1):
        print(f"{benchmark}: {name} {condition} ({place} of {len(pairs)})", flush=True)
        try:
            record(name, condition, opened.score(name, condition))
        except PipelineError as error:
            print(f"error: {name} {condition}: {error}", flush=True)
            failed.append(f"{name} {condition}")
    if table.exists():
        scores.write(benchmark, table, Path(config.reports) / "public")
    if failed:
        raise ModelError(f"{benchmark} has no scores of {', '.join(failed)}; why is said above")


if __name__ == "__main__":
    run_command(main, parse_arguments("pipeline.public"), kept="what was scored is kept")
