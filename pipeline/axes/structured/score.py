"""Logit-level scores: forward KL from next-token targets at prefixes along sampled paths.

Two targets: ``grid``, the trie of the evaluation space (the paper's), and ``rounded_law``, every
decimal of the law. The grid keeps few of the decimals, so its last digits are arbitrary and
its KL cannot reach 0; that of the rounded law can.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from pipeline.artifacts.prompts import read_prompts
from pipeline.artifacts.scores import PATH_SCORE_COLUMNS
from pipeline.artifacts.tries import TrieStore
from pipeline.config.conditions import adapter_directory
from pipeline.config.params import Params
from pipeline.core.laws.rounded_law import rounded_law
from pipeline.core.prompts.structured import Prompt
from pipeline.core.random_streams import random_stream
from pipeline.core.tries.implicit_trie import ImplicitTrie
from pipeline.core.tries.trie import Trie
from pipeline.dag.execution import StageRun, command_line
from pipeline.engines.loading.conditioned_model import open_model
from pipeline.stages.resumable import resumable

if TYPE_CHECKING:
    from pipeline.core.tries.digit_tokens import DigitTokens
    from pipeline.engines.loading.conditioned_model import ConditionedModel
    from pipeline.engines.loading.model import PositionLogits


def path_scores(
    config: Params,
    name: str,
    opened: "ConditionedModel",
    logits_at: "PositionLogits",
    rule: "DigitTokens | None",
    prompt: Prompt,
    trie: Trie,
) -> list[tuple]:
    """Target, path, prefix and KL in nats at every prefix along the paths of one prompt; ``trie`` is the grid's."""
    from pipeline.engines.scoring.token_scores import score_paths

    targets: dict[str, Trie | ImplicitTrie] = {"grid": trie}
    if rule is not None:
        targets["rounded_law"] = ImplicitTrie(rounded_law(prompt.law, config.discretize.eval.num_decimals), rule)
    rows = []
    for target, tokens in targets.items():
        scores = score_paths(
            logits_at,
            opened.encode(prompt.text),
            tokens,
            config.evaluate.paths_per_prompt,
            # The same paths for every condition of a model: their difference has no path noise.
            random_stream(config.seed, "score", "structured", name, prompt.prompt_id, target),
            opened.tokenizer.pad_token_id or 0,
            opened.device,
        )
        for path_index, divergences in enumerate(scores):
            rows.extend((target, path_index, k, float(kl)) for k, kl in enumerate(divergences))
    return rows


def main(
    run: StageRun,
    model: str,
    condition: str,
    model_report: Path,
    weights: Path,
    prompts: list[Path],
    tries: Path,
    output: Path,
) -> None:
    """Write KL(q || model) in nats per prompt, target, path and prefix."""
    requests, store, config = read_prompts(*prompts), TrieStore(tries), run.params
    settings, named = config.models[model], {prompt.prompt_id: prompt for prompt in requests}

    def score(missing: dict[str, Prompt]) -> Iterator[dict[str, list[tuple]]]:
        from pipeline.engines.loading.digit_rule import answer_tokens
        from pipeline.engines.loading.model import position_logits

        opened = open_model(settings, model_report, adapter_directory(condition, weights), requests[0].text)
        logits_at = position_logits(opened.model)
        _, rule = answer_tokens(opened.tokenizer, settings.terminator, config.discretize.eval.num_decimals)
        for name, prompt in missing.items():
            yield {name: path_scores(config, model, opened, logits_at, rule, prompt, store[name])}

    with resumable(run, "prompt", len(named)) as done:
        scored = zip(named, done(named, score), strict=True)
        entries = [(name, *row) for name, rows in scored for row in rows]
        run.write_table(output, pd.DataFrame(entries, columns=list(PATH_SCORE_COLUMNS)))
        run.write_record(num_prefixes=len(entries))


if __name__ == "__main__":
    command_line()
