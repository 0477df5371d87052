"""The model's law over the strings of laws of one's own, computed instead of sampled.

A trie of more prefixes than ``evaluate.exact_max_prefixes`` is left out. A killed run goes on behind its last finished
prompt.
"""

import functools
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.artifacts.journal import Journal
from pipeline.artifacts.prompts import read_prompts
from pipeline.artifacts.storage import write_table
from pipeline.config.conditions import adapter_directory
from pipeline.config.params import Params
from pipeline.core.laws.discretize import discretize
from pipeline.core.prompts.structured import Prompt
from pipeline.core.structured.law_metrics import EXACT, exact_figures
from pipeline.core.tries.trie_walks import trie_levels
from pipeline.dag.execution import StageRun, command_line
from pipeline.engines.loading.conditioned_model import ConditionedModel, open_model
from pipeline.errors import ConfigError


class LawFigures:
    """Computes the row of a prompt; the model is loaded for the first one that is asked for."""

    def __init__(self, config: Params, model: str, open_conditioned: Callable[[], ConditionedModel]):
        self._config, self._model, self._open = config, config.models[model], open_conditioned

    @functools.cached_property
    def _loaded(self) -> tuple:
        from pipeline.engines.loading.digit_rule import answer_tokens
        from pipeline.engines.scoring.tree_scorer import TreeScorer

        opened = self._open()
        terminator, rule = answer_tokens(
            opened.tokenizer, self._model.terminator, self._config.discretize.eval.num_decimals
        )
        return opened, TreeScorer(opened.model), rule, terminator

    def row(self, prompt: Prompt) -> dict[str, Any]:
        """The figures of one prompt by column; none where its trie is too large.

        Raises:
            ConfigError: A string of a finite law is longer than the answers that are sampled.
        """
        from pipeline.engines.loading.chat import encode_answers
        from pipeline.engines.loading.digit_rule import tries_of

        opened, scorer, rule, terminator = self._loaded
        space = discretize(prompt.law, **asdict(self._config.discretize.eval))
        ((_, trie),) = tries_of(opened.tokenizer, rule, terminator, {prompt.prompt_id: space})
        longest, limit = sum(1 for _ in trie_levels(trie)), self._config.generate.structured.max_new_tokens
        if longest > limit:
            raise ConfigError(
                f"generate.structured.max_new_tokens: {limit} is too short for the answers of the law {prompt.family}, "
                f"which need {longest}"
            )
        most = self._config.evaluate.exact_max_prefixes
        if most is not None and trie.num_prefixes > most:
            return {}
        sequences = encode_answers(opened.tokenizer, list(space.values))
        scores = scorer.score_trie(scorer.prefill(opened.encode(prompt.text)), trie)
        return exact_figures(prompt, space, sequences, trie, scores)


def main(
    run: StageRun, model: str, condition: str, model_report: Path, weights: Path, prompts: list[Path], output: Path
) -> None:
    """Write EXACT of every prompt in ``prompts``."""
    # A request that is trained on is in the table once.
    requests = read_prompts(*prompts)
    adapter = adapter_directory(condition, weights)
    figures = LawFigures(
        run.params, model, lambda: open_model(run.params.models[model], model_report, adapter, requests[0].text)
    )
    with run.scratch() as scratch:
        journal = Journal(scratch / "figures.jsonl")
        done = {row["prompt_id"]: row for row in journal.rows()}
        with run.tracked() as tracking:
            for prompt in tracking.bar(requests, desc=run.title, unit="prompt"):
                if prompt.prompt_id not in done:
                    done[prompt.prompt_id] = {"prompt_id": prompt.prompt_id, **figures.row(prompt)}
                    journal.append([done[prompt.prompt_id]])
        table = pd.DataFrame([done[prompt.prompt_id] for prompt in requests], columns=["prompt_id", *EXACT])
        write_table(output, table.astype(dict.fromkeys(EXACT, "float64")))
        run.write_record(num_prompts=len(table))


if __name__ == "__main__":
    command_line()
