"""What the model's probabilities say: its divergence along sampled paths of tries, and bounds on its exact law. Tries
are of the paper's ``grid``, whose last digits are arbitrary so that its KL cannot reach 0, and of ``rounded_law``."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.artifacts.prompts import read_prompts
from pipeline.artifacts.scores import CDF_COLUMNS, EXACT_COLUMNS, PATH_SCORE_COLUMNS
from pipeline.artifacts.tries import TrieStore
from pipeline.config.conditions import adapter_directory
from pipeline.core.laws.rounded_law import rounded_law
from pipeline.core.prompts.structured import Prompt
from pipeline.core.random_streams import random_stream
from pipeline.core.tries.implicit_trie import ImplicitTrie
from pipeline.core.tries.trie import Trie
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
    tries: Path,
    output: Path,
    exact: Path,
    cdf: Path,
) -> None:
    """Write KL(q || model) in nats by prompt, target, path and prefix, to ``exact`` bounds of every prompt, and to
    ``cdf`` bounds of distribution functions; no bounds without a digit rule."""
    requests, store = {prompt.prompt_id: prompt for prompt in read_prompts(*prompts)}, TrieStore(tries)
    config, probe = run.params, next(iter(requests.values())).text
    settings, decimals = config.models[model], config.discretize.eval.num_decimals

    def score(missing: dict[str, Prompt]) -> Iterator[dict[str, dict[str, Any]]]:
        from pipeline.core.exact.number_law import bound_number_law, candidate_tokens
        from pipeline.engines.loading.digit_rule import answer_tokens
        from pipeline.engines.loading.model import position_logits
        from pipeline.engines.scoring.token_scores import score_paths
        from pipeline.engines.scoring.tree_scorer import TreeScorer

        opened = open_model(settings, model_report, adapter_directory(condition, weights), probe)
        logits_at, scorer = position_logits(opened.model), TreeScorer(opened.model)
        _, rule = answer_tokens(opened.tokenizer, settings.terminator, decimals)
        padding, number = opened.tokenizer.pad_token_id or 0, config.evaluate.paths_per_prompt
        for name, prompt in missing.items():
            ids = opened.encode(prompt.text)
            targets: dict[str, Trie | ImplicitTrie] = {"grid": store[name]}
            if rule is not None:
                targets["rounded_law"] = ImplicitTrie(rounded_law(prompt.law, decimals), rule)
            found: dict[str, Any] = {"paths": {}}
            for target, trie in targets.items():
                # The same paths for every condition of a model: their difference has no path noise.
                rng = random_stream(config.seed, "score", "structured", model, name, target)
                paths = score_paths(logits_at, ids, trie, number, rng, padding, opened.device)
                found["paths"][target] = [list(map(float, divergences)) for divergences in paths]
            if rule is not None:
                bounds = bound_number_law(
                    prompt.law,
                    rule,
                    scorer.path_scorer(ids, candidate_tokens(rule)),
                    width=config.evaluate.bounds_width,
                    max_positions=config.evaluate.bounds_max_positions,
                    max_new_tokens=config.generate.structured.max_new_tokens,
                )
                found |= {column: getattr(bounds, column) for column in EXACT_COLUMNS[1:]}
                found["cdf"] = {column: values.tolist() for column, values in bounds.distribution.items()}
            yield {name: found}

    with resumable(run, "prompt", len(requests)) as done:
        scored = dict(zip(requests, done(requests, score), strict=True))
        paths = [
            (name, target, path, prefix, kl)
            for name, found in scored.items()
            for target, sampled in found["paths"].items()
            for path, divergences in enumerate(sampled)
            for prefix, kl in enumerate(divergences)
        ]
        bounds = [
            (name, *(found.get(column, math.nan) for column in EXACT_COLUMNS[1:])) for name, found in scored.items()
        ]
        parts = [pd.DataFrame({"prompt_id": name, **found["cdf"]}) for name, found in scored.items() if "cdf" in found]
        distributions = (pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()).reindex(columns=CDF_COLUMNS)
        run.write_table(output, pd.DataFrame(paths, columns=list(PATH_SCORE_COLUMNS)))
        run.write_table(exact, pd.DataFrame(bounds, columns=list(EXACT_COLUMNS)))
        run.write_table(cdf, distributions.astype(dict.fromkeys(CDF_COLUMNS[1:], "float64")))
        run.write_record(num_prompts=len(scored), num_prefixes=len(paths))


if __name__ == "__main__":
    command_line()
