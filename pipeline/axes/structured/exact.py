"""The model's law over answers, computed instead of sampled.

For every prompt: bounds on the distance of the model's law over plain decimals from the target, by best-first expansion
of digit prefixes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.artifacts.prompts import read_prompts
from pipeline.artifacts.scores import CDF_COLUMNS, EXACT_COLUMNS
from pipeline.artifacts.tries import TrieStore
from pipeline.config.conditions import adapter_directory
from pipeline.config.params import Params
from pipeline.core.prompts.structured import Prompt
from pipeline.core.tries.trie import Trie
from pipeline.dag.execution import StageRun, command_line
from pipeline.engines.loading.conditioned_model import open_model
from pipeline.stages.resumable import resumable


def bound_figures(scorer, prompt_ids: list[int], law, rule, settings, max_new_tokens: int) -> dict[str, Any]:
    """Bounds on the model's law over plain decimals, and of its distribution function (a dictionary of lists)."""
    from pipeline.core.exact.number_law import bound_number_law, candidate_tokens

    bounds = bound_number_law(
        law,
        rule,
        scorer.path_scorer(prompt_ids, candidate_tokens(rule)),
        width=settings.bounds_width,
        max_positions=settings.bounds_max_positions,
        max_new_tokens=max_new_tokens,
    )
    figures = {key: value for key, value in asdict(bounds).items() if key != "width"}
    return figures | {"distribution": {name: values.tolist() for name, values in bounds.distribution.items()}}


def distribution_table(entries: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Distribution functions of the finished prompts, CDF_COLUMNS; a prompt without bounds has no rows."""
    parts = [
        pd.DataFrame({"prompt_id": entry["prompt_id"], **entry["distribution"]}, columns=list(CDF_COLUMNS))
        for entry in entries
        if "distribution" in entry
    ]
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(CDF_COLUMNS))
    return table.astype({name: "float64" for name in CDF_COLUMNS if name != "prompt_id"})


def figures(config: Params, scorer, ids: list[int], rule, prompt: Prompt, trie: Trie) -> dict[str, Any]:
    """The figures of one prompt by column; what does not apply is left out."""
    settings = config.evaluate
    found: dict[str, Any] = {"num_prefixes": trie.num_prefixes}
    # Without a digit rule the tokenizer's numbers cannot be expanded digit by digit.
    if rule is not None:
        longest = config.generate.structured.max_new_tokens
        found |= bound_figures(scorer, ids, prompt.law, rule, settings, longest)
    return {key: value for key, value in found.items() if value == value}


def main(
    run: StageRun,
    model: str,
    condition: str,
    model_report: Path,
    weights: Path,
    prompts: list[Path],
    tries: Path,
    output: Path,
    cdf: Path,
) -> None:
    """Write the exact figures of every prompt in ``prompts`` and, to ``cdf``, distribution functions."""
    requests, store, config = read_prompts(*prompts), TrieStore(tries), run.params
    settings, named = config.models[model], {prompt.prompt_id: prompt for prompt in requests}

    def score(missing: dict[str, Prompt]) -> Iterator[dict[str, dict]]:
        from pipeline.engines.loading.digit_rule import answer_tokens
        from pipeline.engines.scoring.tree_scorer import TreeScorer

        opened = open_model(settings, model_report, adapter_directory(condition, weights), requests[0].text)
        scorer = TreeScorer(opened.model)
        _, rule = answer_tokens(opened.tokenizer, settings.terminator, config.discretize.eval.num_decimals)
        for name, prompt in missing.items():
            yield {name: figures(config, scorer, opened.encode(prompt.text), rule, prompt, store[name])}

    with resumable(run, "prompt", len(named)) as done:
        rows = [{"prompt_id": name, **found} for name, found in zip(named, done(named, score), strict=True)]
        table = pd.DataFrame(rows, columns=list(EXACT_COLUMNS))
        run.write_table(output, table.astype({c: "float64" for c in EXACT_COLUMNS if c != "prompt_id"}))
        run.write_table(cdf, distribution_table(rows))
        run.write_record(num_prompts=len(rows))


if __name__ == "__main__":
    command_line()
