"""Logit-level scores: forward KL from next-token targets at prefixes along sampled paths.

Two targets: ``grid``, the trie of the evaluation space (the paper's), and ``rounded_law``, every
decimal of the law. The grid keeps few of the decimals, so its last digits are arbitrary and
its KL cannot reach 0; that of the rounded law can. A killed run goes on behind its last finished prompt.
"""

import functools
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from pipeline.artifacts.journal import Journal
from pipeline.artifacts.prompts import read_prompts
from pipeline.artifacts.scores import PATH_SCORE_COLUMNS
from pipeline.artifacts.storage import write_table
from pipeline.artifacts.tries import TrieStore
from pipeline.config.conditions import adapter_directory
from pipeline.config.params import Params
from pipeline.core.laws.rounded_law import rounded_law
from pipeline.core.prompts.structured import Prompt
from pipeline.core.random_streams import random_stream
from pipeline.core.tries.implicit_trie import ImplicitTrie
from pipeline.core.tries.trie import Trie
from pipeline.dag.execution import StageRun, command_line
from pipeline.engines.loading.conditioned_model import ConditionedModel, open_model


class PathScores:
    """Scores a prompt's paths; the model is loaded for the first prompt that is asked for."""

    def __init__(self, config: Params, model: str, open_conditioned: Callable[[], ConditionedModel]):
        self._config, self._model, self._open = config, model, open_conditioned

    @functools.cached_property
    def _loaded(self) -> tuple:
        from pipeline.engines.loading.digit_rule import answer_tokens
        from pipeline.engines.loading.model import position_logits

        opened = self._open()
        _, rule = answer_tokens(
            opened.tokenizer, self._config.models[self._model].terminator, self._config.discretize.eval.num_decimals
        )
        return opened, position_logits(opened.model), rule

    def rows(self, prompt: Prompt, trie: Trie) -> list[tuple[str, int, int, float]]:
        """Target, path, prefix and KL in nats at every prefix along the paths; ``trie`` is the grid's."""
        from pipeline.engines.scoring.token_scores import score_paths

        opened, logits_at, rule = self._loaded
        targets: dict[str, Trie | ImplicitTrie] = {"grid": trie}
        if rule is not None:
            law = rounded_law(prompt.law, self._config.discretize.eval.num_decimals)
            targets["rounded_law"] = ImplicitTrie(law, rule)
        rows = []
        for target, tokens in targets.items():
            # The same paths for every condition of a model: their difference has no path noise.
            rng = random_stream(self._config.seed, "score", "structured", self._model, prompt.prompt_id, target)
            scores = score_paths(
                logits_at,
                opened.encode(prompt.text),
                tokens,
                self._config.evaluate.paths_per_prompt,
                rng,
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
    requests, store = read_prompts(*prompts), TrieStore(tries)
    adapter = adapter_directory(condition, weights)
    scores = PathScores(
        run.params, model, lambda: open_model(run.params.models[model], model_report, adapter, requests[0].text)
    )
    entries = []
    with run.scratch() as scratch:
        journal = Journal(scratch / "scores.jsonl")
        done = {row["prompt_id"]: row["scores"] for row in journal.rows()}
        with run.tracked() as tracking:
            for prompt in tracking.bar(requests, desc=run.title, unit="prompt"):
                if (rows := done.get(prompt.prompt_id)) is None:
                    rows = scores.rows(prompt, store[prompt.prompt_id])
                    journal.append([{"prompt_id": prompt.prompt_id, "scores": rows}])
                entries.extend((prompt.prompt_id, *row) for row in rows)
        write_table(output, pd.DataFrame(entries, columns=list(PATH_SCORE_COLUMNS)))
        run.write_record(num_prefixes=len(entries))


if __name__ == "__main__":
    command_line()
