"""Metrics of structured sampling from generations and, where there are any, logit scores; no model is loaded.

A baseline has generations only: sample-level metrics, at its own number of answers and floor.
"""

from pathlib import Path

import pandas as pd

from pipeline.artifacts.generations import GENERATION_COLUMNS, read_answers
from pipeline.artifacts.prompts import read_prompts
from pipeline.artifacts.scores import CDF_COLUMNS, EXACT_COLUMNS, PATH_SCORE_COLUMNS
from pipeline.artifacts.storage import read_table, rows_by_prompt
from pipeline.axes.evaluation import ModelEvaluation
from pipeline.axes.structured.aggregate import failure_counts, summaries
from pipeline.axes.structured.fidelity import evaluate_fidelity
from pipeline.axes.structured.pit import histogram_table
from pipeline.axes.structured.wasserstein import evaluate_prompt
from pipeline.config.conditions import answer_protocol
from pipeline.dag.execution import StageRun, command_line


def logit_columns(scores: pd.DataFrame, exact: pd.DataFrame) -> pd.DataFrame:
    """By prompt: divergences, means over paths of means over prefixes; bounds of the exact law, and their middles."""
    paths = scores.groupby(["prompt_id", "target", "path_index"])["kl_nats"].mean()
    divergences = paths.groupby(["prompt_id", "target"]).mean().unstack().reindex(columns=["grid", "rounded_law"])
    divergences.columns = ["logit_kl_nats", "logit_kl_rounded_law_nats"]
    exact = exact.set_index("prompt_id")
    low, high = exact["wasserstein_1_low"], exact["wasserstein_1_high"]
    return divergences.assign(
        exact_wasserstein_1_normalised_low=low,
        exact_wasserstein_1_normalised_high=high,
        exact_wasserstein_1_normalised=(low + high) / 2,
        exact_support_rate=(exact["support_low"] + exact["support_high"]) / 2,
    )


def main(
    run: StageRun, model: str, prompts: list[Path], generations: Path, scores: Path, exact: Path, output: Path
) -> None:
    """Write an evaluation.

    Tables: ``samples`` (valid values and their PITs) and ``pit`` (histograms); of conditions that are scored
    ``exact_cdf``.
    """
    config, evaluation, rows = run.params, ModelEvaluation(run, "structured", model), []
    requests = read_prompts(*prompts)
    ids = [prompt.prompt_id for prompt in requests]
    for condition, sampled in evaluation.rows(generations, GENERATION_COLUMNS, ids):
        protocol, measured, samples = answer_protocol(config, model, condition), [], []
        for prompt in requests:
            own = sampled[prompt.prompt_id].sort_values("sample_index")
            result = evaluate_prompt([answer for group in read_answers(protocol, own) for answer in group], prompt.law)
            found, pits = evaluate_fidelity(
                prompt, result, config.seed, (model, condition), config.evaluate.floor_replicates
            )
            measured.append(found)
            samples.append((prompt.prompt_id, result.samples, pits))
        per_prompt = pd.DataFrame([found.row for found in measured])
        if condition in config.conditions:
            paths, bounds = (
                pd.concat(map(rows_by_prompt(directory / f"{condition}.parquet", columns, ids).get, ids))
                for directory, columns in ((scores, PATH_SCORE_COLUMNS), (exact, EXACT_COLUMNS))
            )
            per_prompt = per_prompt.join(logit_columns(paths, bounds), on="prompt_id")
            cdf = read_table(exact / f"{condition}.cdf.parquet", CDF_COLUMNS)
            evaluation.add_table(condition, "exact_cdf", cdf)
        evaluation.add_table(condition, "per_prompt", per_prompt)
        evaluation.add_table(condition, "samples", pd.DataFrame(samples, columns=["prompt_id", "values", "pits"]))
        evaluation.add_table(condition, "pit", histogram_table({name: pits for name, _, pits in samples}))
        for split, members in per_prompt.groupby("split", sort=False):
            evaluation.failures[condition][split] = failure_counts(members)
        rows.append(per_prompt.join(pd.DataFrame([found.arrays for found in measured])).assign(condition=condition))
    for split, members in pd.concat(rows, ignore_index=True).groupby("split", sort=False):
        for part, statistics, by_family in summaries(members):
            evaluation.summarise(part, statistics, split=split, by_family=by_family)
    evaluation.write(output)


if __name__ == "__main__":
    command_line()
