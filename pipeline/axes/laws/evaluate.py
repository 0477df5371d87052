"""Answers against laws of one's own, and the model's exact law over their strings; no model is loaded."""

from pathlib import Path

import pandas as pd

from pipeline.artifacts.generations import GENERATION_COLUMNS, read_answers
from pipeline.artifacts.prompts import read_prompts
from pipeline.artifacts.storage import read_table, rows_by_prompt
from pipeline.axes.laws.law_metrics import EXACT, evaluate_law, failures, is_numeric, law_metric_rows
from pipeline.config.conditions import answer_protocol
from pipeline.dag.execution import StageRun, command_line
from pipeline.stages.evaluation_output import write_evaluation


def main(
    run: StageRun, model: str, condition: str, prompts: list[Path], generations: Path, exact: Path, output: Path
) -> None:
    """Write an evaluation directory.

    Tables: ``per_prompt``; ``classes``, target and count of each class of categorical laws; ``samples``, valid numbers
    and the target's mid-quantiles.
    """
    config, wanted = run.params, read_prompts(*prompts)
    sampled = rows_by_prompt(generations, GENERATION_COLUMNS, [prompt.prompt_id for prompt in wanted])
    protocol = answer_protocol(config, model, condition)
    results, classes, samples = [], [], []
    for prompt in wanted:
        own = sampled[prompt.prompt_id].sort_values("sample_index")
        answers = [answer for group in read_answers(protocol, own) for answer in group]
        found = evaluate_law(
            prompt,
            answers,
            seed=config.seed,
            names=(model, condition),
            floor_replicates=config.evaluate.floor_replicates,
        )
        results.append(found)
        if is_numeric(prompt.law):
            samples.append((prompt.prompt_id, found.samples, found.reference))
        else:
            targets = zip(prompt.law.class_names, prompt.law.class_probabilities.tolist(), strict=True)
            classes += [(prompt.prompt_id, name, target, found.counts[name]) for name, target in targets]
    per_prompt = pd.DataFrame([each.row for each in results])
    per_prompt = per_prompt.merge(read_table(exact, ("prompt_id", *EXACT)), on="prompt_id", how="left")
    metrics, failed = [], {}
    for split, members in per_prompt.groupby("split", sort=False):
        names = {"axis": "laws", "model": model, "condition": condition, "split": str(split)}
        rows = law_metric_rows(
            members,
            [results[place] for place in members.index],
            seed=config.seed,
            names=tuple(names.values()),
            replicates=config.evaluate.bootstrap_replicates,
        )
        metrics += [{**names, **row} for row in rows]
        failed[str(split)] = failures(members)
    tables = {
        "classes": pd.DataFrame(classes, columns=["prompt_id", "class", "target", "count"]),
        "samples": pd.DataFrame(samples, columns=["prompt_id", "values", "reference"]),
    }
    write_evaluation(run, output, metrics=metrics, failures=failed, per_prompt=per_prompt, tables=tables)


if __name__ == "__main__":
    command_line()
