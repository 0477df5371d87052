"""Answers against laws of one's own, and the model's exact law over their strings; no model is loaded."""

from pathlib import Path

import pandas as pd

from pipeline.artifacts.generations import GENERATION_COLUMNS, read_answers
from pipeline.artifacts.prompts import read_prompts
from pipeline.artifacts.scores import LAW_EXACT_COLUMNS
from pipeline.artifacts.storage import read_table
from pipeline.axes.evaluation import ModelEvaluation
from pipeline.axes.laws.law_metrics import evaluate_law, summaries
from pipeline.config.conditions import answer_protocol
from pipeline.dag.execution import StageRun, command_line

OPTION_COLUMNS = ["chance", "share"]
"""Of each option of a request that is answered with one, in the table ``options``."""


def main(run: StageRun, model: str, prompts: list[Path], generations: Path, exact: Path, output: Path) -> None:
    config, evaluation, rows = run.params, ModelEvaluation(run, "laws", model), []
    requests, columns = read_prompts(*prompts), ["prompt_id", *LAW_EXACT_COLUMNS]
    for condition, sampled in evaluation.rows(generations, GENERATION_COLUMNS, [p.prompt_id for p in requests]):
        protocol, measured = answer_protocol(config, model, condition), []
        for prompt in requests:
            answers = read_answers(protocol, sampled[prompt.prompt_id])
            options = {"names": (model, condition), "floor_replicates": config.evaluate.floor_replicates}
            measured.append(evaluate_law(prompt, answers, seed=config.seed, **options))
        computed = read_table(exact / f"{condition}.parquet", columns)[columns]
        of_condition = pd.DataFrame(measured).merge(computed, on="prompt_id", how="left")
        evaluation.add_per_prompt(condition, of_condition.drop(columns=OPTION_COLUMNS, errors="ignore"))
        if set(OPTION_COLUMNS) <= set(of_condition):
            options = of_condition[["prompt_id", "split", *OPTION_COLUMNS]].dropna().explode(OPTION_COLUMNS)
            evaluation.add_table(condition, "options", options.astype(dict.fromkeys(OPTION_COLUMNS, float)).dropna())
        rows.append(of_condition.assign(condition=condition))
    for split, members in pd.concat(rows, ignore_index=True).groupby("split", sort=False):
        for part, statistics, by_family in summaries(members):
            evaluation.summarise(part, statistics, split=split, by_family=by_family)
    evaluation.write(output)


if __name__ == "__main__":
    command_line()
