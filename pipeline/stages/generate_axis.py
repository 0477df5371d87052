"""Sample answers of one model under one condition, on one axis: each pair of a question and a further setting (column
"setting"), and each question in each further style, is a request with an id that names both."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from pipeline.artifacts.generations import GENERATION_COLUMNS, SETTING_COLUMN
from pipeline.artifacts.model_report import model_revision
from pipeline.artifacts.prompts import read_requests
from pipeline.artifacts.storage import read_table
from pipeline.artifacts.tries import TrieStore
from pipeline.config.conditions import answer_protocol, answer_styles, decoding_settings, generation_settings
from pipeline.config.engine import samples_per_request
from pipeline.config.evaluation import DEFAULT_SETTING, StyleConfig
from pipeline.core.prompts.text import TextPrompt
from pipeline.core.tries.trie import Trie, trie_levels
from pipeline.dag.execution import StageRun, command_line
from pipeline.engines.sampling.conditioned_engine import check_engine, open_engine
from pipeline.errors import ConfigError
from pipeline.stages.resumable import resumable

if TYPE_CHECKING:
    from pipeline.core.tries.constraint import TrieConstraint

SETTING_MARK = "@"
"""Between a question's id and a further decoding setting or style, in their request's id; no prompt's id has it."""


def _all_requests(
    prompts: Sequence[TextPrompt], settings: Iterable[str], styles: Mapping[str, StyleConfig], bare: Mapping[str, str]
) -> list[TextPrompt]:
    """Each prompt, the same under each further setting, next to it so that engines run it once, and each style's
    ``bare``."""
    settings, asked = list(settings), []
    for prompt in prompts:
        texts = dict.fromkeys(settings, prompt.text)
        texts |= {name: style.template.replace("{prompt}", bare[prompt.prompt_id]) for name, style in styles.items()}
        asked += [prompt]
        asked += [
            replace(prompt, prompt_id=f"{prompt.prompt_id}{SETTING_MARK}{name}", text=text)
            for name, text in texts.items()
        ]
    return asked


def _constraint(tries: TrieStore, prompt_id: str, max_new_tokens: int) -> "TrieConstraint":
    """The prompt's trie as a constraint. Raises ConfigError."""
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
    from pipeline.engines.loading.chat import message_encoder
    from pipeline.engines.loading.model import load_tokenizer
    from pipeline.engines.sampling.generate import sample_seeds
    from pipeline.engines.sampling.text_engine import SampleRequest, sampling_law

    config, settings = run.params, generation_settings(run.params, axis, condition)
    check_engine(config, condition)
    further, styles = decoding_settings(settings), answer_styles(settings)
    columns = ("prompt_id", "bare")
    tables = (read_table(path, columns)[list(columns)] for path in prompts) if styles else ()
    bare = dict(row for table in tables for row in table.itertuples(index=False, name=None))
    rows = _all_requests(read_requests(*prompts), further, styles, bare)
    samples = {
        f"{prompt.prompt_id} {index}": (prompt.prompt_id, index, seed)
        for prompt in rows
        for index, seed in enumerate(
            sample_seeds(config.sampling_seed, (axis, model, condition, prompt.prompt_id), settings.num_samples)
        )
    }

    def sample(missing: Mapping[str, tuple[str, int, int]]) -> Iterator[dict[str, dict]]:
        chosen, protocol = config.models[model], answer_protocol(config, model, condition)
        law = sampling_law(settings, chosen, model_revision(model_report))
        encode = message_encoder(load_tokenizer(chosen, model_revision(model_report)), chosen)
        tries = TrieStore(weights) if condition == "constrained" else None
        seeds: dict[str, dict[int, int]] = {}
        for prompt_id, index, seed in missing.values():
            seeds.setdefault(prompt_id, {})[index] = seed
        requests = []
        for prompt in (prompt for prompt in rows if prompt.prompt_id in seeds):
            setting = prompt.prompt_id.partition(SETTING_MARK)[2]
            messages = protocol.messages(axis, prompt.text, chosen.chat.reasoning.instruction_role)
            request = SampleRequest(
                prompt.prompt_id,
                encode(messages, protocol.reasons),
                seeds[prompt.prompt_id],
                styles[setting].max_new_tokens if setting in styles else settings.max_new_tokens,
                **further.get(setting, law),
                # Reasoning traces and channels are told apart by special tokens.
                skip_special_tokens=not protocol.reasons,
                constraint=tries and _constraint(tries, prompt.prompt_id, settings.max_new_tokens),
            )
            requests.append(request)
        # Engines decode neighbouring requests together where their replies may be equally long.
        requests.sort(key=lambda request: request.max_new_tokens)
        engine = open_engine(config, model, condition, model_report, weights, rows[0].text, axis=axis)
        for batch in engine.sample(requests):
            yield {f"{made.key} {made.sample_index}": asdict(made.generation) for made in batch}

    # Another number of samples per request would draw other samples beside the kept ones.
    with resumable(run, "sample", len(samples), suffix=f"-{samples_per_request(config.engine)}") as done:
        drawn = zip(samples.values(), done(samples, sample), strict=True)
        entries = [{"prompt_id": name, "sample_index": index, **generation} for (name, index, _), generation in drawn]
        answers = pd.DataFrame(entries, columns=list(GENERATION_COLUMNS))
        if hasattr(settings, "settings"):
            parts = answers["prompt_id"].str.partition(SETTING_MARK)
            answers = answers.assign(prompt_id=parts[0], **{SETTING_COLUMN: parts[2].replace("", DEFAULT_SETTING)})
        run.write_table(output, answers)
        run.write_record(num_generations=len(answers), num_generated_tokens=int(answers["num_tokens"].sum()))


if __name__ == "__main__":
    command_line()
