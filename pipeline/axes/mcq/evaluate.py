"""Parse rate and answer-position balance of generated multiple-choice questions; no model is loaded."""

from pathlib import Path

import pandas as pd

from pipeline.artifacts.generations import GENERATION_COLUMNS
from pipeline.artifacts.prompts import read_text_prompts
from pipeline.axes.evaluation import ModelEvaluation
from pipeline.axes.mcq.multiple_choice import FLOORS, failure_counts, generation_rows, outcome, prompt_row, statistics
from pipeline.core.prompts.multiple_choice import parse_mcq, parse_mcq_released, parse_mcq_tolerant
from pipeline.dag.execution import StageRun, command_line


def main(run: StageRun, model: str, prompts: list[Path], generations: Path, output: Path) -> None:
    """Write an evaluation; its table ``generations`` says what each parser made of each generation."""
    evaluation, rows = ModelEvaluation(run, "mcq", model), []
    parse_strictly = {"strict": parse_mcq, "released_code": parse_mcq_released}[run.params.evaluate.mcq_parser]
    names = [prompt.prompt_id for prompt in read_text_prompts(*prompts)]
    for condition, by_prompt in evaluation.rows(generations, GENERATION_COLUMNS, names):
        table = pd.concat([by_prompt[name] for name in names])
        outcomes = table[["prompt_id", "sample_index"]].assign(
            strict=[outcome(parse_strictly(text)) for text in table["text"]],
            tolerant=[outcome(parse_mcq_tolerant(text)) for text in table["text"]],
            truncated=table["finish_reason"] == "length",
        )
        per_prompt = pd.DataFrame([prompt_row(name, outcomes[outcomes["prompt_id"] == name]) for name in names])
        evaluation.add_table(condition, "per_prompt", per_prompt.assign(split="mcq"))
        evaluation.add_table(condition, "generations", outcomes)
        evaluation.failures[condition] = failure_counts(per_prompt)
        rows.append(generation_rows(outcomes).assign(condition=condition))
    evaluation.summarise(pd.concat(rows), statistics(), FLOORS, split="mcq", unit="generation")
    evaluation.write(output)


if __name__ == "__main__":
    command_line()
