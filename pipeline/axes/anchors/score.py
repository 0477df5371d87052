"""How far a condition's law of replies to held-out instructions is from the base checkpoint's, token by token."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from pipeline.artifacts.generations import GENERATION_COLUMNS
from pipeline.artifacts.model_report import model_revision
from pipeline.artifacts.prompts import read_requests
from pipeline.artifacts.scores import REPLY_DIVERGENCE_COLUMNS
from pipeline.artifacts.storage import read_table
from pipeline.config.conditions import adapter_directory
from pipeline.dag.execution import StageRun, command_line
from pipeline.engines.loading.conditioned_model import open_model
from pipeline.stages.resumable import resumable


def main(
    run: StageRun,
    model: str,
    condition: str,
    model_report: Path,
    weights: Path,
    prompts: list[Path],
    base_generations: Path,
    generations: Path,
    output: Path,
) -> None:
    """Write divergences of the base checkpoint's replies (forward) and of the condition's own (reverse)."""
    from pipeline.engines.loading.chat import answer_terminator, reply_ids
    from pipeline.engines.loading.model import load_tokenizer, position_logits
    from pipeline.engines.scoring.token_scores import DIRECTIONS, reply_divergences

    requests, config = read_requests(*prompts), run.params.models[model]
    tables = [read_table(path, GENERATION_COLUMNS) for path in (base_generations, generations)]
    table = pd.concat([own.assign(direction=name) for own, name in zip(tables, DIRECTIONS, strict=True)])
    tokenizer = load_tokenizer(config, model_revision(model_report))
    ended = (table["finish_reason"] == "stop").tolist()
    terminator = answer_terminator(tokenizer, config.terminator)
    replies = reply_ids(tokenizer, table["text"].tolist(), ended, terminator)
    adapter = adapter_directory(condition, weights)
    asked = list(zip(table["prompt_id"], replies, table["direction"], strict=True))

    def divergences(missing: dict[str, tuple]) -> Iterator[dict[str, float]]:
        # The base checkpoint is no distance from itself, and is not loaded.
        if adapter is None:
            yield dict.fromkeys(missing, 0.0)
            return
        opened, names = open_model(config, model_report, adapter, requests[0].text), list(missing)
        encoded = {prompt.prompt_id: opened.encode(prompt.text) for prompt in requests}
        prompt_ids, replied, directions = zip(*missing.values(), strict=True)
        replied_to, tokens = [encoded[name] for name in prompt_ids], run.params.evaluate.tokens_per_pass
        logits_at = position_logits(opened.model)
        for batch in reply_divergences(opened.model, logits_at, replied_to, replied, directions, tokens):
            yield {names[index]: value for index, value in batch}

    with resumable(run, "reply", len(table)) as done:
        found = done({str(place): item for place, item in enumerate(asked)}, divergences)
        table = table.assign(num_tokens=list(map(len, replies)), divergence_nats=found)
        run.write_table(output, table[list(REPLY_DIVERGENCE_COLUMNS)])
        run.write_record(num_replies=len(table))


if __name__ == "__main__":
    command_line()
