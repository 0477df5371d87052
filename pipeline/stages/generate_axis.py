"""Sample answers of one model under one condition, on one axis, with the engine that params.yaml names.

Finished samples are kept in the run's scratch until the table is written, so a killed run continues
where it stopped and loses the rows that were being decoded. A sample depends on its own seed only,
or on that of the request that it shares with its neighbours (``samples_per_request``).

Questions are asked under several decoding settings in one call of the engine, which runs a question once for all of
them: each pair of a question and a further setting is a request of its own, with an id that names both, and so is a
question in each further style, under the default setting. The table says which in its column "setting".
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from tqdm import tqdm

from pipeline.artifacts.generations import GENERATION_COLUMNS, SETTING_COLUMN
from pipeline.artifacts.journal import Journal
from pipeline.artifacts.model_report import model_revision
from pipeline.artifacts.prompts import read_requests
from pipeline.artifacts.storage import read_table
from pipeline.artifacts.tries import TrieStore
from pipeline.config.conditions import answer_protocol, answer_styles, decoding_settings, generation_settings
from pipeline.config.engine import samples_per_request
from pipeline.config.evaluation import DEFAULT_SETTING, StyleConfig
from pipeline.config.params import Params
from pipeline.core.prompts.text import TextPrompt
from pipeline.core.tries.trie import Trie
from pipeline.core.tries.trie_walks import trie_levels
from pipeline.dag.execution import StageRun, command_line
from pipeline.engines.sampling.conditioned_engine import check_engine, open_engine, request_encoder
from pipeline.errors import ConfigError

if TYPE_CHECKING:
    from pipeline.core.tries.constraint import TrieConstraint
    from pipeline.engines.sampling.text_engine import Sample, SampleRequest, TextEngine


SETTING_MARK = "@"
"""Between a question's id and a further decoding setting or style, in their request's id; no prompt's id has it."""


def _all_requests(
    prompts: Sequence[TextPrompt], settings: Iterable[str], styles: Mapping[str, StyleConfig], bare: Mapping[str, str]
) -> list[TextPrompt]:
    """Each prompt, the same under each further decoding setting, and in each further style its ``bare`` question.

    A prompt's settings are next to each other, so that engines run it once.
    """
    names, asked = list(settings), []
    for prompt in prompts:
        texts = {name: prompt.text for name in names}
        texts |= {name: style.template.replace("{prompt}", bare[prompt.prompt_id]) for name, style in styles.items()}
        further = ((f"{prompt.prompt_id}{SETTING_MARK}{name}", text) for name, text in texts.items())
        asked += [prompt, *(replace(prompt, prompt_id=name, text=text) for name, text in further)]
    return asked


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
    revision: str | None,
    tries: TrieStore | None,
    encode: Callable[[Sequence[Mapping[str, str]], bool], list[int]],
) -> list["SampleRequest"]:
    """A request for the ``missing`` samples (seed by sample index, by prompt id) of each prompt that has any."""
    from pipeline.engines.sampling.text_engine import SampleRequest, sampling_law

    settings = generation_settings(config, axis, condition)
    law = sampling_law(settings, config.models[model], revision)
    further, styles = decoding_settings(settings), answer_styles(settings)
    protocol = answer_protocol(config, model, condition)
    role = config.models[model].chat.reasoning.instruction_role
    requests = []
    for prompt in prompts:
        setting = prompt.prompt_id.partition(SETTING_MARK)[2]
        if missing[prompt.prompt_id]:
            messages = protocol.messages(axis, prompt.text, role)
            request = SampleRequest(
                prompt.prompt_id,
                encode(messages, protocol.reasons),
                messages,
                missing[prompt.prompt_id],
                styles[setting].max_new_tokens if setting in styles else settings.max_new_tokens,
                **further.get(setting, law),
                # Reasoning traces and channels are told apart by special tokens.
                skip_special_tokens=not protocol.reasons,
                constraint=_constraint(tries, prompt.prompt_id, settings.max_new_tokens),
            )
            requests.append(request)
    # Engines decode neighbouring requests together where their replies may be equally long.
    return sorted(requests, key=lambda request: request.max_new_tokens)


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


def _table(journals: Iterable[Journal], with_settings: bool) -> pd.DataFrame:
    """The generations table, in the prompts' order, then by sample index; ``with_settings``, with their column."""
    # A sample that was drawn again is the later of its rows.
    finished = [{row["sample_index"]: row for row in journal.rows()} for journal in journals]
    rows = [by_index[index] for by_index in finished for index in sorted(by_index)]
    table = pd.DataFrame(rows, columns=list(GENERATION_COLUMNS))
    if not with_settings:
        return table
    parts = table["prompt_id"].str.partition(SETTING_MARK)
    table["prompt_id"] = parts[0]
    return table.assign(**{SETTING_COLUMN: parts[2].replace("", DEFAULT_SETTING)})


def main(
    run: StageRun,
    axis: str,
    model: str,
    condition: str,
    model_report: Path,
    weights: Path,
    prompts: list[Path],
    output: Path,
) -> None:
    """Write the generations of every prompt in ``prompts``; ``weights`` are the tries for the condition constrained."""
    from pipeline.engines.sampling.generate import sample_seeds

    config = run.params
    check_engine(config, condition)
    settings = generation_settings(config, axis, condition)
    styles, count = answer_styles(settings), settings.num_samples
    columns = ("prompt_id", "bare")
    tables = (read_table(path, columns)[list(columns)] for path in prompts) if styles else ()
    bare = dict(row for table in tables for row in table.itertuples(index=False, name=None))
    rows = _all_requests(read_requests(*prompts), decoding_settings(settings), styles, bare)
    together = samples_per_request(config.engine)
    # Another number of samples per request would draw other samples beside the kept ones.
    with run.scratch(f"-{together}") as scratch:
        journals = {prompt.prompt_id: Journal(scratch / f"{prompt.prompt_id}.jsonl") for prompt in rows}
        missing = {
            prompt_id: _missing(
                journal.rows(), sample_seeds(config.sampling_seed, (axis, model, condition, prompt_id), count), together
            )
            for prompt_id, journal in journals.items()
        }
        total, left = len(rows) * count, sum(map(len, missing.values()))
        if left:
            encode = request_encoder(config.models[model], model_report)
            tries = TrieStore(weights) if condition == "constrained" else None
            revision = model_revision(model_report)
            requests = _requests(config, axis, model, condition, rows, missing, revision, tries, encode)
            engine = open_engine(config, model, condition, model_report, weights, rows[0].text, axis=axis)
            with run.tracked() as tracking:
                progress = tracking.bar(desc=run.title, unit="sample", total=total, initial=total - left)
                _sample(engine, requests, journals, progress)
        answers = _table(journals.values(), hasattr(settings, "settings"))
        run.write_table(output, answers)
        generated = int(answers["num_tokens"].sum())
        run.write_record(num_generations=len(answers), num_generated_tokens=generated, samples_per_request=together)


if __name__ == "__main__":
    command_line()
