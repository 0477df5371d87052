"""Parse rate and answer-position balance of generated multiple-choice questions; no model is loaded."""

from pathlib import Path

import pandas as pd

from pipeline.artifacts.generations import GENERATION_COLUMNS
from pipeline.artifacts.prompts import read_text_prompts
from pipeline.axes.evaluation import ModelEvaluation
from pipeline.axes.mcq.multiple_choice import STATISTICS, generation_rows, outcome, prompt_row
from pipeline.core.prompts.multiple_choice import parse_mcq, parse_mcq_released
from pipeline.dag.execution import StageRun, command_line


def main(run: StageRun, model: str, prompts: list[Path], generations: Path, output: Path) -> None:
    """Write an evaluation; its table ``generations`` says what the parser made of each generation."""
    evaluation, rows = ModelEvaluation(run, "mcq", model), []
    parse = {"strict": parse_mcq, "released_code": parse_mcq_released}[run.params.evaluate.mcq_parser]
    names = [prompt.prompt_id for prompt in read_text_prompts(*prompts)]
    for condition, by_prompt in evaluation.rows(generations, GENERATION_COLUMNS, names):
        table = pd.concat([by_prompt[name] for name in names])
        outcomes = table[["prompt_id", "sample_index"]].assign(outcome=[outcome(parse(text)) for text in table["text"]])
        by_name = outcomes.groupby("prompt_id", sort=False)["outcome"]
        evaluation.add_per_prompt(condition, pd.DataFrame([prompt_row(name, own.tolist()) for name, own in by_name]))
        evaluation.add_table(condition, "generations", outcomes)
        rows.append(generation_rows(outcomes).assign(condition=condition))
    floors = {"mcq_total_variation": "floor"}
    evaluation.summarise(pd.concat(rows), STATISTICS, floors, split="mcq", unit="generation")
    evaluation.write(output)


if __name__ == "__main__":
    command_line()
