"""The model's law over answers, computed instead of sampled.

Bounds on the distance of the model's law over plain decimals from the target, by expansion of digit prefixes.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from pipeline.artifacts.prompts import read_prompts
from pipeline.artifacts.scores import CDF_COLUMNS, EXACT_COLUMNS
from pipeline.config.conditions import adapter_directory
from pipeline.config.params import Params
from pipeline.core.prompts.structured import Prompt
from pipeline.dag.execution import StageRun, command_line
from pipeline.engines.loading.conditioned_model import open_model
from pipeline.stages.resumable import resumable

if TYPE_CHECKING:
    from pipeline.core.tries.digit_tokens import DigitTokens
    from pipeline.engines.scoring.tree_scorer import TreeScorer


def bound_figures(
    config: Params, scorer: "TreeScorer", prompt_ids: list[int], prompt: Prompt, rule: "DigitTokens"
) -> dict[str, Any]:
    """Bounds by column of EXACT_COLUMNS, and on the distribution function (a dictionary of lists)."""
    from pipeline.core.exact.number_law import bound_number_law, candidate_tokens

    bounds = bound_number_law(
        prompt.law,
        rule,
        scorer.path_scorer(prompt_ids, candidate_tokens(rule)),
        width=config.evaluate.bounds_width,
        max_positions=config.evaluate.bounds_max_positions,
        max_new_tokens=config.generate.structured.max_new_tokens,
    )
    figures = {name: getattr(bounds, name) for name in EXACT_COLUMNS[1:]}
    return figures | {"distribution": {name: values.tolist() for name, values in bounds.distribution.items()}}


def main(
    run: StageRun,
    model: str,
    condition: str,
    model_report: Path,
    weights: Path,
    prompts: list[Path],
    output: Path,
    cdf: Path,
) -> None:
    """Write the bounds of every prompt in ``prompts`` and, to ``cdf``, distribution functions.

    Without a digit rule the tokenizer's numbers cannot be expanded digit by digit: there are no bounds then.
    """
    requests, config = {prompt.prompt_id: prompt for prompt in read_prompts(*prompts)}, run.params
    settings, probe = config.models[model], next(iter(requests.values())).text

    def bound(missing: dict[str, Prompt]) -> Iterator[dict[str, dict]]:
        from pipeline.engines.loading.digit_rule import answer_tokens
        from pipeline.engines.scoring.tree_scorer import TreeScorer

        opened = open_model(settings, model_report, adapter_directory(condition, weights), probe)
        scorer = TreeScorer(opened.model)
        _, rule = answer_tokens(opened.tokenizer, settings.terminator, config.discretize.eval.num_decimals)
        for name, prompt in missing.items():
            yield {name: bound_figures(config, scorer, opened.encode(prompt.text), prompt, rule) if rule else {}}

    with resumable(run, "prompt", len(requests)) as done:
        found = dict(zip(requests, done(requests, bound), strict=True))
        bounds = [(name, *(row.get(column, math.nan) for column in EXACT_COLUMNS[1:])) for name, row in found.items()]
        run.write_table(output, pd.DataFrame(bounds, columns=list(EXACT_COLUMNS)))
        run.write_table(cdf, _distributions(found))
        run.write_record(num_prompts=len(bounds))


def _distributions(found: dict[str, dict[str, Any]]) -> pd.DataFrame:
    """Distribution functions, CDF_COLUMNS; a prompt without bounds has no rows."""
    parts = [pd.DataFrame({"prompt_id": name, **row["distribution"]}) for name, row in found.items() if row]
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    return table.reindex(columns=list(CDF_COLUMNS)).astype(dict.fromkeys(CDF_COLUMNS[1:], "float64"))


if __name__ == "__main__":
    command_line()
