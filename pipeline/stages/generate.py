"""Sample answers of one model under one condition, on one axis, with the engine that params.yaml names.

Finished samples are kept in ``--partial`` until the table is written, so a killed run continues
where it stopped and loses the rows that were being decoded. A sample depends on its own seed only,
or on that of the request that it shares with its neighbours (``samples_per_request``).
"""

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from tqdm import tqdm

from pipeline.artifacts.journal import Journal
from pipeline.artifacts.locks import exclusive
from pipeline.artifacts.storage import GENERATION_COLUMNS, TrieStore, read_requests, write_table
from pipeline.command import run_stage
from pipeline.config.params import Params, load_params
from pipeline.core.prompts.text import TextPrompt
from pipeline.core.tries.trie import Trie
from pipeline.core.tries.trie_walks import trie_levels
from pipeline.engines.loading.conditioned_model import adapter_inputs, answer_protocol, generation_settings
from pipeline.engines.sampling.conditioned_engine import check_engine, open_engine, request_encoder
from pipeline.errors import ConfigError
from pipeline.record.provenance import StageRecord
from pipeline.record.tracking import stage_run
from pipeline.stages.arguments import add_condition, stage_parser

if TYPE_CHECKING:
    from pipeline.core.tries.constraint import TrieConstraint
    from pipeline.engines.sampling.text_engine import Sample, SampleRequest, TextEngine

AXES = ("structured", "open", "mcq", "novelty")


def _constraint(tries: TrieStore | None, prompt_id: str, max_new_tokens: int) -> "TrieConstraint | None":
    """The prompt's trie as a constraint; None without tries. Raises ConfigError."""
    if tries is None:
        return None
    from pipeline.core.tries.constraint import TrieConstraint
    from pipeline.engines.loading.model import default_device

    trie: Trie = tries[prompt_id]
    longest = sum(1 for _ in trie_levels(trie))
    if longest > max_new_tokens:
        raise ConfigError(
            f"generate.constrained.max_new_tokens: {max_new_tokens} is too short for the strings of {prompt_id}, "
            f"which need {longest}"
        )
    return TrieConstraint(trie, default_device())


def _requests(
    config: Params,
    axis: str,
    model: str,
    condition: str,
    prompts: Sequence[TextPrompt],
    missing: Mapping[str, dict[int, int]],
    tries: TrieStore | None,
    encode: Callable[[Sequence[Mapping[str, str]], bool], list[int]],
) -> list["SampleRequest"]:
    """A request for the ``missing`` samples (seed by sample index, by prompt id) of each prompt that has any."""
    from pipeline.engines.sampling.text_engine import SampleRequest

    settings = generation_settings(config, axis, condition)
    protocol = answer_protocol(config, model, condition)
    role = config.model(model).chat.reasoning.instruction_role
    requests = []
    for prompt in prompts:
        if missing[prompt.prompt_id]:
            messages = protocol.messages(axis, prompt.text, role)
            request = SampleRequest(
                prompt.prompt_id,
                encode(messages, protocol.reasons),
                messages,
                missing[prompt.prompt_id],
                settings.max_new_tokens,
                settings.temperature,
                settings.top_p,
                # Reasoning traces and channels are told apart by special tokens.
                skip_special_tokens=not protocol.reasons,
                constraint=_constraint(tries, prompt.prompt_id, settings.max_new_tokens),
            )
            requests.append(request)
    return requests


def _record(config: Params, axis: str, model: str, condition: str, inputs: Sequence[Path | None]) -> StageRecord:
    """What the table depends on, once the condition is known to be right. Raises ConfigError."""
    settings = generation_settings(config, axis, condition)
    # Which rows the model runs together is not part of what is computed.
    free = ("batch_size", "strategy", "enabled")
    sampling = {key: value for key, value in asdict(settings).items() if key not in free}
    instruction = answer_protocol(config, model, condition).instruction(axis)
    parameters = {
        "seed": config.seed,
        "model": config.model(model),
        "condition": condition,
        "sampling": sampling,
        "instruction": instruction,
        "engine": config.engine.kind,
    }
    return StageRecord(f"generate_{axis}", parameters, [path for path in inputs if path])


def _missing(done: Sequence[Mapping], seeds: Sequence[int], together: int) -> dict[int, int]:
    """Seed by sample index of what is not in ``done``; of samples drawn ``together``, all where one is missing."""
    from pipeline.engines.sampling.text_engine import seed_groups

    found = {row["sample_index"] for row in done}
    groups = seed_groups(dict(enumerate(seeds)), together)
    return {index: seed for group in groups if not group.keys() <= found for index, seed in group.items()}


def _rows(samples: Sequence["Sample"]) -> list[dict]:
    """Rows of the generations table."""
    return [
        {"prompt_id": sample.key, "sample_index": sample.sample_index, **asdict(sample.generation)}
        for sample in samples
    ]


def _sample(
    engine: "TextEngine", requests: Sequence["SampleRequest"], journals: Mapping[str, Journal], progress: tqdm
) -> None:
    """Draw what the requests ask for, each group of samples going into its prompt's journal at once."""
    for samples in engine.sample(requests):
        by_prompt: dict[str, list[Sample]] = {}
        for sample in samples:
            by_prompt.setdefault(sample.key, []).append(sample)
        for prompt_id, group in by_prompt.items():
            journals[prompt_id].append(_rows(group))
        progress.update(len(samples))


def _table(journals: Iterable[Journal]) -> pd.DataFrame:
    """The generations table, in the prompts' order, then by sample index."""
    # A sample that was drawn again is the later of its rows.
    finished = [{row["sample_index"]: row for row in journal.rows()} for journal in journals]
    rows = [by_index[index] for by_index in finished for index in sorted(by_index)]
    return pd.DataFrame(rows, columns=list(GENERATION_COLUMNS))


def main(
    params: Path,
    axis: str,
    model: str,
    model_report: Path,
    condition: str,
    adapters: Path,
    prompts: list[Path],
    output: Path,
    partial: Path,
    constraint: Path | None = None,
) -> None:
    """Write the generations of every prompt in ``prompts``."""
    from pipeline.engines.sampling.generate import sample_seeds

    config = load_params(params)
    if (condition == "constrained") != (constraint is not None):
        raise ConfigError("--constraint: the condition constrained, and no other, needs the evaluation space's tries")
    check_engine(config, condition)
    inputs = [model_report, *prompts, *adapter_inputs(condition, adapters), constraint]
    record = _record(config, axis, model, condition, inputs)
    rows, count = read_requests(*prompts), generation_settings(config, axis, condition).num_samples
    together = config.engine.samples_per_request
    # Another number of samples per request would draw other samples beside the kept ones.
    scratch = partial / f"{record.identity[:16]}-{together}"
    what = f"generate {axis} {model} {condition}"
    with exclusive(partial, what):
        journals = {prompt.prompt_id: Journal(scratch / f"{prompt.prompt_id}.jsonl") for prompt in rows}
        missing = {
            prompt_id: _missing(
                journal.rows(), sample_seeds(config.seed, (axis, model, condition, prompt_id), count), together
            )
            for prompt_id, journal in journals.items()
        }
        total, left = len(rows) * count, sum(map(len, missing.values()))
        if left:
            encode = request_encoder(config.model(model), model_report)
            tries = TrieStore(constraint) if constraint else None
            requests = _requests(config, axis, model, condition, rows, missing, tries, encode)
            engine = open_engine(config, model, condition, adapters, model_report, rows[0].text, axis=axis)
            with stage_run(config, record, model=model, condition=condition) as run:
                progress = run.bar(desc=what, unit="sample", total=total, initial=total - left)
                _sample(engine, requests, journals, progress)
        answers = _table(journals.values())
        write_table(output, answers)
        results = {"num_generations": len(answers), "seed": config.seed, "samples_per_request": together}
        record.write(output.with_suffix(".provenance.json"), **results)
        shutil.rmtree(partial, ignore_errors=True)


if __name__ == "__main__":
    parser = stage_parser(__doc__)
    parser.add_argument("--axis", required=True, choices=AXES, help="evaluation axis, a key of `generate`")
    add_condition(parser)
    parser.add_argument("--prompts", type=Path, nargs="+", required=True, help="prompt tables")
    parser.add_argument("--output", type=Path, required=True, help="Parquet file to write")
    parser.add_argument("--partial", type=Path, required=True, help="directory for the samples of an unfinished run")
    parser.add_argument("--constraint", type=Path, help="tries that restrict decoding (condition constrained only)")
    run_stage(main, parser.parse_args())
