"""The model's law over the strings of laws of one's own, of tries up to ``evaluate.exact_max_prefixes``."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline.artifacts.prompts import read_prompts
from pipeline.artifacts.scores import LAW_EXACT_COLUMNS
from pipeline.config.conditions import adapter_directory
from pipeline.core.exact.trie_law import exact_law, leaf_index
from pipeline.core.laws.discretize import OutputSpace, discretize
from pipeline.core.laws.family import Law
from pipeline.core.laws.finite_law import FiniteLaw
from pipeline.core.laws.quantiles import interquantile_width
from pipeline.core.prompts.structured import Prompt
from pipeline.core.tries.trie import Trie, trie_levels
from pipeline.dag.execution import StageRun, command_line
from pipeline.engines.loading.conditioned_model import open_model
from pipeline.errors import ConfigError
from pipeline.stages.resumable import resumable


def exact_figures(
    law: Law | FiniteLaw, space: OutputSpace, sequences: Sequence[Sequence[int]], trie: Trie, scores: np.ndarray
) -> dict[str, float]:
    """LAW_EXACT_COLUMNS of one law, from the token ids of each string of its space, terminator excluded, and
    float64[num_edges] of the model's log p(token | prefix) in nats."""
    numeric = not isinstance(law, FiniteLaw) or law.values is not None
    places = leaf_index(trie, sequences)
    kept = places >= 0
    values = None
    if numeric:
        values = np.empty(int(kept.sum()))
        values[places[kept]] = np.array([float(text) for text in space.values])[kept]
    exact = exact_law(trie, scores, values)
    model = np.zeros(len(places))
    model[kept] = np.exp(exact.log_probabilities)[places[kept]]
    class_of = law.class_of if isinstance(law, FiniteLaw) else np.arange(len(places))
    difference = np.bincount(class_of, weights=model - np.asarray(space.probabilities))
    figures = {"law_exact_total_variation": (float(np.abs(difference).sum()) + exact.mass_off_trie) / 2}
    if numeric and (width := interquantile_width(law)) > 0:
        figures["law_exact_wasserstein_1_normalised"] = exact.wasserstein_1 / width
    return figures


def main(
    run: StageRun, model: str, condition: str, model_report: Path, weights: Path, prompts: list[Path], output: Path
) -> None:
    # A request that is trained on is in the table once.
    requests, config = {prompt.prompt_id: prompt for prompt in read_prompts(*prompts)}, run.params
    settings, probe = config.models[model], next(iter(requests.values())).text
    limit, most = config.generate.structured.max_new_tokens, config.evaluate.exact_max_prefixes

    def score(missing: dict[str, Prompt]) -> Iterator[dict[str, Any]]:
        from pipeline.engines.loading.chat import encode_answers
        from pipeline.engines.loading.digit_rule import answer_tokens, tries_of
        from pipeline.engines.scoring.tree_scorer import TreeScorer

        opened = open_model(settings, model_report, adapter_directory(condition, weights), probe)
        scorer, tokenizer = TreeScorer(opened.model), opened.tokenizer
        terminator, rule = answer_tokens(tokenizer, settings.terminator, config.discretize.eval.num_decimals)
        for name, prompt in missing.items():
            space = discretize(prompt.law, **asdict(config.discretize.eval))
            ((_, trie),) = tries_of(tokenizer, rule, terminator, {name: space})
            longest = sum(1 for _ in trie_levels(trie))
            if longest > limit:
                raise ConfigError(
                    f"generate.structured.max_new_tokens: {limit} is too short for the answers of the law "
                    f"{prompt.family}, which need {longest}"
                )
            if most is not None and trie.num_prefixes > most:
                yield {name: {}}
                continue
            scores = scorer.score_trie(scorer.prefill(opened.encode(prompt.text)), trie)
            sequences = encode_answers(tokenizer, list(space.values))
            yield {name: exact_figures(prompt.law, space, sequences, trie, scores)}

    with resumable(run, "prompt", len(requests)) as done:
        rows = [{"prompt_id": name, **row} for name, row in zip(requests, done(requests, score), strict=True)]
        table = pd.DataFrame(rows, columns=["prompt_id", *LAW_EXACT_COLUMNS])
        run.write_table(output, table.astype(dict.fromkeys(LAW_EXACT_COLUMNS, "float64")))
        run.write_record(num_prompts=len(table))


if __name__ == "__main__":
    command_line()
