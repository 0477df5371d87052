"""Metrics of structured sampling from generations and, where there are any, logit scores; no model is loaded.

A baseline has generations only: sample-level metrics, at its own number of answers and floor.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.artifacts.generations import GENERATION_COLUMNS, read_answers
from pipeline.artifacts.prompts import read_prompts
from pipeline.artifacts.scores import CDF_COLUMNS, EXACT_COLUMNS, PATH_SCORE_COLUMNS
from pipeline.artifacts.storage import read_table, rows_by_prompt
from pipeline.axes.evaluation import ModelEvaluation
from pipeline.axes.structured.aggregate import failure_counts, summaries
from pipeline.axes.structured.fidelity import (
    Fidelity,
    adjusted_p_values,
    evaluate_fidelity,
    histogram_table,
    wasserstein_1_deviations,
)
from pipeline.axes.structured.streams import first_pits, stream_correlation
from pipeline.axes.structured.wasserstein import (
    evaluate_prompt,
    kl_by_depth,
    perfect_sampler_replicates,
    prompt_row,
    within_budget,
)
from pipeline.config.conditions import answer_protocol
from pipeline.config.params import Params
from pipeline.core.prompts.structured import Prompt
from pipeline.core.random_streams import random_stream
from pipeline.dag.execution import StageRun, command_line


def logit_columns(scores: pd.DataFrame, exact: pd.DataFrame) -> pd.DataFrame:
    """By prompt: divergences, means over paths of means over prefixes; and exact figures, of bounds the middle too."""
    paths = scores.groupby(["prompt_id", "target", "path_index"])["kl_nats"].mean()
    divergences = paths.groupby(["prompt_id", "target"]).mean().unstack().reindex(columns=["grid", "rounded_law"])
    divergences.columns = ["logit_kl_nats", "logit_kl_rounded_law_nats"]
    exact = exact.set_index("prompt_id")[list(EXACT_COLUMNS[1:])].rename(
        columns={f"wasserstein_1_{end}": f"wasserstein_1_normalised_{end}" for end in ("low", "high")}
    )
    for middle, name in (("wasserstein_1_normalised", "wasserstein_1_normalised"), ("support_rate", "support")):
        exact[middle] = (exact[f"{name}_low"] + exact[f"{name}_high"]) / 2
    return divergences.join(exact.add_prefix("exact_"))


def _floor(config: Params, simulated: pd.DataFrame, prompt: Prompt, size: int) -> np.ndarray:
    """float64[R] perfect samplers of ``size`` draws, simulated here where floor_structured has no such size."""
    replicates = config.evaluate.floor_replicates
    known = simulated[simulated["num_samples"] == size]["replicates"]
    if len(known):
        return known.iloc[0]
    if size == 0:
        return np.full(replicates, np.nan)
    rng = random_stream(config.seed, "floor", "structured", prompt.prompt_id, size)
    return perfect_sampler_replicates(prompt.law, size, replicates, rng)


def _measure(
    config: Params, names: tuple[str, str], prompt: Prompt, own: pd.DataFrame, simulated: pd.DataFrame
) -> tuple[Fidelity, np.ndarray]:
    """One prompt's answers under a condition, and ``first_pits``; ``names`` are model and condition."""
    own, settings = own.sort_values("sample_index"), config.evaluate
    answers = read_answers(answer_protocol(config, *names), own)
    result = evaluate_prompt([answer for group in answers for answer in group], prompt.law)
    at_budget, within = within_budget(prompt, answers, own["num_tokens"].to_numpy(), settings.token_budget)
    rng = random_stream(config.seed, "half samples", "budget", "structured", *names, prompt.prompt_id)
    varied = {"wasserstein_1_normalised_at_budget": wasserstein_1_deviations(within.samples, prompt.law, rng)}
    # W1 is over the valid answers, so a perfect sampler is given as many.
    sizes = {"": len(result.samples), "_at_budget": len(within.samples)}
    floors = {f"wasserstein_1_normalised{part}": _floor(config, simulated, prompt, n) for part, n in sizes.items()}
    found = evaluate_fidelity(prompt, result, config.seed, names, settings.floor_replicates)
    row = {
        **prompt_row(prompt, result),
        **at_budget,
        **found.row,
        "num_generations": len(own),
        "num_truncated": int((own["finish_reason"] == "length").sum()),
        "floor": np.mean(floors["wasserstein_1_normalised"]),
    }
    found = replace(found, row=row, deviations=found.deviations | varied, floors=found.floors | floors)
    return found, first_pits(result.valid, found.pits, list(map(len, answers)))


def _add_scores(evaluation: ModelEvaluation, condition: str, ids: list[str], scores: Path, exact: Path) -> pd.DataFrame:
    """Add the tables of a scored condition; its ``logit_columns``."""
    paths, computed = (
        pd.concat(map(rows_by_prompt(directory / f"{condition}.parquet", columns, ids).get, ids))
        for directory, columns in ((scores, PATH_SCORE_COLUMNS), (exact, EXACT_COLUMNS))
    )
    evaluation.add_table(condition, "kl_by_depth", kl_by_depth(paths))
    evaluation.add_table(condition, "exact_cdf", read_table(exact / f"{condition}.cdf.parquet", CDF_COLUMNS))
    return logit_columns(paths, computed)


def _add_split(
    evaluation: ModelEvaluation, names: tuple[str, str], members: pd.DataFrame, pits: pd.DataFrame, seed: int
) -> None:
    """Add what a split of a condition has by itself: failures, and whether its prompts share a random stream."""
    (model, condition), split = names, members["split"].iloc[0]
    evaluation.failures[condition][split] = failure_counts(members)
    rng = random_stream(seed, "stream correlation", "structured", model, condition, split)
    found = stream_correlation(pits.loc[members.index].to_numpy(), rng)
    low, high = found.interval
    for name, value, more in (("", found.correlation, {"ci_low": low, "ci_high": high}), ("_p", found.p_value, {})):
        evaluation.add_value(condition, f"stream_correlation{name}", value, found.num_pairs, split, **more)


def main(
    run: StageRun,
    model: str,
    prompts: list[Path],
    generations: Path,
    floors: Path,
    scores: Path,
    exact: Path,
    output: Path,
) -> None:
    """Write an evaluation.

    Tables: ``samples`` (valid values and their PITs) and ``pit`` (histograms); of conditions that are scored
    ``kl_by_depth`` and ``exact_cdf``.
    """
    config, evaluation, rows = run.params, ModelEvaluation(run, "structured", model), []
    wanted = read_prompts(*prompts)
    ids = [prompt.prompt_id for prompt in wanted]
    simulated = rows_by_prompt(floors, ("prompt_id", "num_samples", "replicates"), ids)
    for condition, sampled in evaluation.rows(generations, GENERATION_COLUMNS, ids):
        names = (model, condition)
        measured = [_measure(config, names, p, sampled[p.prompt_id], simulated[p.prompt_id]) for p in wanted]
        found, pits = [each for each, _ in measured], pd.DataFrame([each for _, each in measured])
        per_prompt = pd.DataFrame([each.row for each in found])
        per_prompt = per_prompt.join(adjusted_p_values(per_prompt))
        if condition in config.conditions:
            per_prompt = per_prompt.join(_add_scores(evaluation, condition, ids, scores, exact), on="prompt_id")
        samples = {"prompt_id": ids, "values": [each.samples for each in found], "pits": [each.pits for each in found]}
        evaluation.add_table(condition, "per_prompt", per_prompt)
        evaluation.add_table(condition, "samples", pd.DataFrame(samples))
        evaluation.add_table(condition, "pit", histogram_table(dict(zip(ids, samples["pits"], strict=True))))
        for _, members in per_prompt.groupby("split", sort=False):
            _add_split(evaluation, names, members, pits, config.seed)
        rows.append(per_prompt.join(pd.DataFrame([each.arrays for each in found])).assign(condition=condition))
    for split, members in pd.concat(rows, ignore_index=True).groupby("split", sort=False):
        for part, statistics, by_family in summaries(members):
            evaluation.summarise(part, statistics, split=split, by_family=by_family)
    evaluation.write(output)


if __name__ == "__main__":
    command_line()
