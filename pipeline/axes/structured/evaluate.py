"""Metrics of structured sampling from generations and, where there are any, logit scores; no model is loaded.

A baseline has generations only: sample-level metrics, at its own number of answers and floor.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.artifacts.generations import GENERATION_COLUMNS, read_answers
from pipeline.artifacts.prompts import read_prompts
from pipeline.artifacts.scores import CDF_COLUMNS, EXACT_COLUMNS, PATH_SCORE_COLUMNS
from pipeline.artifacts.storage import read_table, rows_by_prompt
from pipeline.axes.structured.aggregate import aggregate_split, failure_counts
from pipeline.axes.structured.budget import within_budget
from pipeline.axes.structured.fidelity import (
    Fidelity,
    Streams,
    adjusted_p_values,
    evaluate_fidelity,
    histogram_table,
    wasserstein_1_deviations,
)
from pipeline.axes.structured.streams import pits_by_sample, stream_rows
from pipeline.axes.structured.wasserstein import (
    PromptResult,
    evaluate_prompt,
    kl_by_depth,
    perfect_sampler_replicates,
    prompt_row,
)
from pipeline.config.conditions import answer_protocol
from pipeline.config.params import Params
from pipeline.core.prompts.structured import Prompt
from pipeline.core.random_streams import random_stream
from pipeline.dag.execution import StageRun, command_line
from pipeline.stages.evaluation_output import write_evaluation


def exact_columns(computed: pd.Series) -> dict[str, float]:
    """Columns of the per-prompt table from a row of the exact figures; bounds also as their middle."""
    low, high = computed["wasserstein_1_low"], computed["wasserstein_1_high"]
    return {
        "exact_wasserstein_1_normalised": (low + high) / 2,
        "exact_wasserstein_1_normalised_low": low,
        "exact_wasserstein_1_normalised_high": high,
        "exact_support_rate": (computed["support_low"] + computed["support_high"]) / 2,
        "exact_valid_rate_low": computed["valid_low"],
        "exact_valid_rate_high": computed["valid_high"],
        "exact_logit_kl_nats": computed["logit_kl_nats"],
        **{
            f"exact_{name}": computed[name]
            for name in EXACT_COLUMNS
            if name not in ("prompt_id", "logit_kl_nats", "wasserstein_1_low", "wasserstein_1_high")
        },
    }


def _logit_columns(scores: pd.DataFrame, computed: pd.DataFrame) -> dict[str, float]:
    """A prompt's divergences (mean over paths of the mean over prefixes) and exact figures."""
    paths = scores.groupby(["target", "path_index"])["kl_nats"].mean().groupby("target").mean()
    return {
        "logit_kl_nats": paths["grid"],
        "logit_kl_rounded_law_nats": paths.get("rounded_law", math.nan),
        **exact_columns(computed.iloc[0]),
    }


def _floor(config: Params, simulated: pd.DataFrame, prompt: Prompt, size: int) -> np.ndarray:
    """float64[R] perfect samplers of ``size`` draws, simulated here where floor_structured has no such size."""
    replicates = config.evaluate.floor_replicates
    known = simulated[simulated["num_samples"] == size]["replicates"]
    if len(known):
        return known.iloc[0]
    if size == 0:
        return np.full(replicates, math.nan)
    rng = random_stream(config.seed, "floor", "structured", prompt.prompt_id, size)
    return perfect_sampler_replicates(prompt.law, size, replicates, rng)


@dataclass(frozen=True)
class _Prompt:
    """One prompt's row of the per-prompt table and what is aggregated with it."""

    row: dict
    result: PromptResult
    fidelity: Fidelity
    floors: dict[str, np.ndarray]
    deviations: dict[str, np.ndarray]
    firsts: np.ndarray


def _evaluate(
    config: Params, names: tuple[str, str], prompt: Prompt, answers: list, own: pd.DataFrame, simulated: pd.DataFrame
) -> _Prompt:
    """Sample-level results of one prompt; ``names`` are model and condition, ``own`` its generations."""
    seed, evaluate, name = config.seed, config.evaluate, prompt.prompt_id
    result = evaluate_prompt([answer for group in answers for answer in group], prompt.law)
    at_budget, within = within_budget(prompt, answers, own["num_tokens"].to_numpy(), evaluate.token_budget)
    # W1 is over the valid answers, so a perfect sampler is given as many.
    sizes = len(result.samples), at_budget["num_valid_at_budget"]
    floors = {
        metric: _floor(config, simulated, prompt, size)
        for metric, size in zip(("wasserstein_1_normalised", "wasserstein_1_normalised_at_budget"), sizes, strict=True)
    }
    fidelity = evaluate_fidelity(
        result,
        prompt.law,
        evaluate.floor_replicates,
        Streams(
            random_stream(seed, "pit", "structured", *names, name),
            random_stream(seed, "half samples", "structured", *names, name),
            random_stream(seed, "floor", "pit", name, sizes[0]),
            random_stream(seed, "floor", "pit", name, result.num_samples, "all answers"),
        ),
    )
    rng = random_stream(seed, "half samples", "budget", "structured", *names, name)
    deviations = {"wasserstein_1_normalised_at_budget": wasserstein_1_deviations(within, prompt.law, rng)}
    rng = random_stream(seed, "bootstrap", "structured", *names, name)
    row = {
        **prompt_row(prompt, result, evaluate.bootstrap_replicates, rng),
        **at_budget,
        **fidelity.row,
        "num_generations": len(own),
        "num_truncated": int((own["finish_reason"] == "length").sum()),
        "floor": np.mean(floors["wasserstein_1_normalised"]),
    }
    firsts = np.cumsum([0, *(len(group) for group in answers)])[:-1]
    return _Prompt(row, result, fidelity, {**floors, **fidelity.floors}, {**deviations, **fidelity.deviations}, firsts)


def _aggregate(
    config: Params, names: tuple[str, str], per_prompt: pd.DataFrame, found: list[_Prompt]
) -> tuple[list[dict], dict[str, dict[str, int]]]:
    """Rows of the metrics, and failures by split."""
    metrics, failures = [], {}
    for split, members in per_prompt.groupby("split", sort=False):
        labels = {"axis": "structured", "model": names[0], "condition": names[1], "split": split}
        own = [found[place] for place in members.index]
        deviations = own[0].deviations
        rows = aggregate_split(
            members,
            {metric: np.stack([each.floors[metric] for each in own]) for metric in own[0].floors},
            seed=config.seed,
            names=tuple(labels.values()),
            bootstrap_replicates=config.evaluate.bootstrap_replicates,
            deviations={name: np.stack([each.deviations[name] for each in own]) for name in deviations},
        )
        pits = pits_by_sample(*zip(*((e.result.valid, e.fidelity.pits, e.firsts) for e in own), strict=True))
        rows += stream_rows(pits, random_stream(config.seed, "stream correlation", *labels.values()))
        metrics.extend({**labels, **row} for row in rows)
        failures[split] = failure_counts(members)
    return metrics, failures


def main(
    run: StageRun,
    model: str,
    condition: str,
    prompts: list[Path],
    generations: Path,
    floors: Path,
    output: Path,
    scores: Path | None = None,
    exact: Path | None = None,
    exact_cdf: Path | None = None,
) -> None:
    """Write ``metrics.json``, ``provenance.json`` and tables into ``output``.

    Tables: ``per_prompt``, ``samples`` (valid values and their PITs) and ``pit`` (histograms); with ``scores``
    ``kl_by_depth``, with ``exact_cdf`` a table of that name.
    """
    config = run.params
    protocol = answer_protocol(config, model, condition)
    wanted = read_prompts(*prompts)
    prompt_ids = [prompt.prompt_id for prompt in wanted]
    sampled = rows_by_prompt(generations, GENERATION_COLUMNS, prompt_ids)
    simulated = rows_by_prompt(floors, ("prompt_id", "num_samples", "replicates"), prompt_ids)
    divergence = rows_by_prompt(scores, PATH_SCORE_COLUMNS, prompt_ids) if scores else {}
    computed = rows_by_prompt(exact, EXACT_COLUMNS, prompt_ids) if exact else {}
    rows, found = [], []
    for prompt in wanted:
        name = prompt.prompt_id
        own = sampled[name].sort_values("sample_index")
        found.append(_evaluate(config, (model, condition), prompt, read_answers(protocol, own), own, simulated[name]))
        logits = _logit_columns(divergence[name], computed[name]) if divergence and computed else {}
        rows.append({**found[-1].row, **logits})
    per_prompt = pd.DataFrame(rows)
    per_prompt = per_prompt.join(adjusted_p_values(per_prompt))
    metrics, failures = _aggregate(config, (model, condition), per_prompt, found)
    samples = [(name, each.result.samples, each.fidelity.pits) for name, each in zip(prompt_ids, found, strict=True)]
    tables = {
        "samples": pd.DataFrame(samples, columns=["prompt_id", "values", "pits"]),
        "pit": histogram_table({name: pits for name, _, pits in samples}),
    }
    if divergence:
        tables["kl_by_depth"] = kl_by_depth(pd.concat(divergence[name] for name in prompt_ids))
    if exact_cdf:
        tables["exact_cdf"] = read_table(exact_cdf, CDF_COLUMNS)
    write_evaluation(run, output, metrics=metrics, failures=failures, per_prompt=per_prompt, tables=tables)


if __name__ == "__main__":
    command_line()
