"""Metrics of structured sampling from generations and, but for a baseline, logit scores; no model is loaded."""

from pathlib import Path

import pandas as pd

from pipeline.artifacts.generations import GENERATION_COLUMNS, read_answers
from pipeline.artifacts.prompts import read_prompts
from pipeline.artifacts.scores import CDF_COLUMNS, EXACT_COLUMNS, PATH_SCORE_COLUMNS
from pipeline.artifacts.storage import read_table, rows_by_prompt
from pipeline.axes.evaluation import ModelEvaluation
from pipeline.axes.structured.aggregate import summaries
from pipeline.axes.structured.fidelity import evaluate_fidelity
from pipeline.axes.structured.ks import ks_passes
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


def main(run: StageRun, model: str, prompts: list[Path], generations: Path, scores: Path, output: Path) -> None:
    """Write an evaluation with the table ``samples`` (valid values and their PITs) and, where scored, ``exact_cdf``."""
    config, evaluation, rows = run.params, ModelEvaluation(run, "structured", model), []
    requests = read_prompts(*prompts)
    ids = [prompt.prompt_id for prompt in requests]
    for condition, sampled in evaluation.rows(generations, GENERATION_COLUMNS, ids):
        protocol, measured, samples = answer_protocol(config, model, condition), [], []
        for prompt in requests:
            answers = read_answers(protocol, sampled[prompt.prompt_id])
            result = evaluate_prompt(answers, prompt.law)
            row, pits = evaluate_fidelity(
                prompt, result, config.seed, (model, condition), config.evaluate.floor_replicates
            )
            measured.append(row | ks_passes(prompt, answers, config.seed))
            samples.append((prompt.prompt_id, result.samples, pits))
        of_condition = pd.DataFrame(measured)
        if condition in config.conditions:
            paths, bounds = (
                pd.concat(map(rows_by_prompt(scores / f"{condition}{name}.parquet", columns, ids).get, ids))
                for name, columns in (("", PATH_SCORE_COLUMNS), (".exact", EXACT_COLUMNS))
            )
            of_condition = of_condition.join(logit_columns(paths, bounds), on="prompt_id")
            evaluation.add_table(condition, "exact_cdf", read_table(scores / f"{condition}.cdf.parquet", CDF_COLUMNS))
        evaluation.add_per_prompt(condition, of_condition)
        evaluation.add_table(condition, "samples", pd.DataFrame(samples, columns=["prompt_id", "values", "pits"]))
        rows.append(of_condition.assign(condition=condition))
    for split, members in pd.concat(rows, ignore_index=True).groupby("split", sort=False):
        for part, statistics, by_family in summaries(members):
            evaluation.summarise(part, statistics, split=split, by_family=by_family)
    evaluation.write(output)


if __name__ == "__main__":
    command_line()
