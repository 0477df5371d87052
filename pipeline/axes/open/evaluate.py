"""Metrics of open-ended random generation from generations and first-step laws; no model is loaded."""

from pathlib import Path

import pandas as pd

from pipeline.artifacts.generations import GENERATION_COLUMNS, read_answers
from pipeline.artifacts.prompts import read_text_prompts
from pipeline.artifacts.scores import FIRST_STEP_COLUMNS
from pipeline.artifacts.storage import rows_by_prompt
from pipeline.axes.evaluation import ModelEvaluation
from pipeline.axes.open.open_ended import SUPPORT_MASS, answer_counts, open_row, support_size
from pipeline.axes.structured.aggregate import failure_counts
from pipeline.config.conditions import answer_protocol
from pipeline.core.prompts.text_answers import normalise_answer
from pipeline.core.statistics.summarise import mean_of, median_of
from pipeline.dag.execution import StageRun, command_line

ANSWER_COLUMNS = ["prompt_id", "category", "answer", "count"]
"""Of the table answers: one row per distinct answer of a prompt, most frequent first."""
# A prompt whose answers nearly all differ has an effective number that is an extrapolation into the thousands and would
# carry the mean.
OF_ANSWERS = {
    "valid_rate": mean_of("valid_rate"),
    "unique_fraction": mean_of("unique_fraction"),
    "effective_answers_median": median_of("effective_answers"),
}


def main(run: StageRun, model: str, prompts: list[Path], generations: Path, scores: Path, output: Path) -> None:
    """Write an evaluation with the table ``answers``; the baselines have no first-step law."""
    evaluation, rows = ModelEvaluation(run, "open", model), []
    requests, reference_size = read_text_prompts(*prompts), run.params.generate.open.num_samples
    names = [prompt.prompt_id for prompt in requests]
    for condition, replies in evaluation.rows(generations, GENERATION_COLUMNS, names):
        protocol, laws, counted = answer_protocol(run.params, model, condition), {}, []
        if condition in run.params.conditions:
            laws = rows_by_prompt(scores / f"{condition}.parquet", FIRST_STEP_COLUMNS, names)
        for prompt in requests:
            groups = read_answers(protocol, replies[prompt.prompt_id])
            answers = [normalise_answer(answer) for group in groups for answer in group]
            row = {"condition": condition, **open_row(prompt, answers, reference_size)}
            if laws:
                row["top_p_support_size"] = support_size(laws[prompt.prompt_id]["probabilities"].iloc[0], SUPPORT_MASS)
            rows.append(row)
            for answer, count in answer_counts(answers).items():
                counted.append((prompt.prompt_id, prompt.category, answer, count))
        evaluation.add_table(condition, "answers", pd.DataFrame(counted, columns=ANSWER_COLUMNS))
    per_prompt = pd.DataFrame(rows)
    evaluation.add_tables("per_prompt", per_prompt)
    for (condition, split), members in per_prompt.groupby(["condition", "split"], sort=False):
        evaluation.failures[condition][split] = failure_counts(members)
    for split, members in per_prompt.groupby("split", sort=False):
        evaluation.summarise(members, OF_ANSWERS, split=split)
        with_law = members[members["condition"].isin(run.params.conditions)]
        evaluation.summarise(with_law, {"top_p_support_size": mean_of("top_p_support_size")}, split=split)
    evaluation.write(output)


if __name__ == "__main__":
    command_line()
