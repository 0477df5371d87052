"""The model's law over the strings of laws of one's own, computed instead of sampled.

A trie of more prefixes than ``evaluate.exact_max_prefixes`` is left out.
"""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from pipeline.artifacts.prompts import read_prompts
from pipeline.axes.laws.law_metrics import EXACT, exact_figures
from pipeline.config.conditions import adapter_directory
from pipeline.config.params import Params
from pipeline.core.laws.discretize import discretize
from pipeline.core.prompts.structured import Prompt
from pipeline.core.tries.trie import trie_levels
from pipeline.dag.execution import StageRun, command_line
from pipeline.engines.loading.conditioned_model import open_model
from pipeline.errors import ConfigError
from pipeline.stages.resumable import resumable

if TYPE_CHECKING:
    from pipeline.engines.loading.conditioned_model import ConditionedModel
    from pipeline.engines.scoring.tree_scorer import TreeScorer


def figures(
    config: Params, model: str, opened: "ConditionedModel", scorer: "TreeScorer", prompt: Prompt
) -> dict[str, Any]:
    """The figures of one prompt by column; none where its trie is too large.

    Raises:
        ConfigError: A string of a finite law is longer than the answers that are sampled.
    """
    from pipeline.engines.loading.chat import encode_answers
    from pipeline.engines.loading.digit_rule import answer_tokens, tries_of

    tokenizer = opened.tokenizer
    terminator, rule = answer_tokens(tokenizer, config.models[model].terminator, config.discretize.eval.num_decimals)
    space = discretize(prompt.law, **asdict(config.discretize.eval))
    ((_, trie),) = tries_of(tokenizer, rule, terminator, {prompt.prompt_id: space})
    longest, limit = sum(1 for _ in trie_levels(trie)), config.generate.structured.max_new_tokens
    if longest > limit:
        raise ConfigError(
            f"generate.structured.max_new_tokens: {limit} is too short for the answers of the law {prompt.family}, "
            f"which need {longest}"
        )
    most = config.evaluate.exact_max_prefixes
    if most is not None and trie.num_prefixes > most:
        return {}
    scores = scorer.score_trie(scorer.prefill(opened.encode(prompt.text)), trie)
    return exact_figures(prompt, space, encode_answers(tokenizer, list(space.values)), trie, scores)


def main(
    run: StageRun, model: str, condition: str, model_report: Path, weights: Path, prompts: list[Path], output: Path
) -> None:
    """Write EXACT of every prompt in ``prompts``."""
    # A request that is trained on is in the table once.
    requests, config = {prompt.prompt_id: prompt for prompt in read_prompts(*prompts)}, run.params
    probe = next(iter(requests.values())).text

    def score(missing: dict[str, Prompt]) -> Iterator[dict[str, Any]]:
        from pipeline.engines.scoring.tree_scorer import TreeScorer

        opened = open_model(config.models[model], model_report, adapter_directory(condition, weights), probe)
        scorer = TreeScorer(opened.model)
        for name, prompt in missing.items():
            yield {name: figures(config, model, opened, scorer, prompt)}

    with resumable(run, "prompt", len(requests)) as done:
        rows = [{"prompt_id": name, **found} for name, found in zip(requests, done(requests, score), strict=True)]
        table = pd.DataFrame(rows, columns=["prompt_id", *EXACT])
        run.write_table(output, table.astype(dict.fromkeys(EXACT, "float64")))
        run.write_record(num_prompts=len(table))


if __name__ == "__main__":
    command_line()
