"""The model's law over the strings of laws of one's own, computed instead of sampled.

A trie of more prefixes than ``evaluate.exact_max_prefixes`` is left out. A killed run goes on behind its last finished
prompt.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.artifacts.prompts import read_prompts
from pipeline.axes.laws.law_metrics import EXACT, exact_figures
from pipeline.config.conditions import adapter_directory
from pipeline.config.params import Params
from pipeline.core.laws.discretize import discretize
from pipeline.core.prompts.structured import Prompt
from pipeline.core.tries.trie_walks import trie_levels
from pipeline.dag.execution import StageRun, command_line
from pipeline.engines.scoring.model_on_demand import ModelOnDemand
from pipeline.errors import ConfigError
from pipeline.stages.row_by_row import row_by_row


def figures(config: Params, model: ModelOnDemand, prompt: Prompt) -> dict[str, Any]:
    """The figures of one prompt by column; none where its trie is too large.

    Raises:
        ConfigError: A string of a finite law is longer than the answers that are sampled.
    """
    from pipeline.engines.loading.chat import encode_answers
    from pipeline.engines.loading.digit_rule import tries_of

    tokenizer, (terminator, rule) = model.opened.tokenizer, model.answer_tokens
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
    scorer = model.tree_scorer
    scores = scorer.score_trie(scorer.prefill(model.opened.encode(prompt.text)), trie)
    return exact_figures(prompt, space, encode_answers(tokenizer, list(space.values)), trie, scores)


def main(
    run: StageRun, model: str, condition: str, model_report: Path, weights: Path, prompts: list[Path], output: Path
) -> None:
    """Write EXACT of every prompt in ``prompts``."""
    # A request that is trained on is in the table once.
    requests, config = read_prompts(*prompts), run.params
    opened = ModelOnDemand(config, model, model_report, adapter_directory(condition, weights), requests[0].text)
    with row_by_row(run, requests, lambda prompt: figures(config, opened, prompt)) as rows:
        table = pd.DataFrame(rows, columns=["prompt_id", *EXACT])
        run.write_table(output, table.astype(dict.fromkeys(EXACT, "float64")))
        run.write_record(num_prompts=len(table))


if __name__ == "__main__":
    command_line()
