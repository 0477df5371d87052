"""Parse rate and answer-position balance of generated multiple-choice questions; no model is loaded."""

from pathlib import Path

import pandas as pd

from pipeline.artifacts.generations import GENERATION_COLUMNS
from pipeline.artifacts.prompts import read_text_prompts
from pipeline.artifacts.storage import rows_by_prompt
from pipeline.axes.mcq.multiple_choice import failure_counts, metric_rows, outcome, prompt_row
from pipeline.core.prompts.multiple_choice import parse_mcq, parse_mcq_released, parse_mcq_tolerant
from pipeline.dag.execution import StageRun, command_line
from pipeline.stages.evaluation_output import write_evaluation


def main(run: StageRun, model: str, condition: str, prompts: list[Path], generations: Path, output: Path) -> None:
    """Write an evaluation directory; its table ``generations`` says what each parser made of each generation."""
    requests = read_text_prompts(*prompts)
    by_prompt = rows_by_prompt(generations, GENERATION_COLUMNS, [prompt.prompt_id for prompt in requests])
    table = pd.concat([by_prompt[prompt.prompt_id] for prompt in requests])
    parse_strictly = {"strict": parse_mcq, "released_code": parse_mcq_released}[run.params.evaluate.mcq_parser]
    outcomes = table[["prompt_id", "sample_index"]].assign(
        strict=[outcome(parse_strictly(text)) for text in table["text"]],
        tolerant=[outcome(parse_mcq_tolerant(text)) for text in table["text"]],
        truncated=table["finish_reason"] == "length",
    )
    per_prompt = pd.DataFrame(
        [prompt_row(p.prompt_id, outcomes[outcomes["prompt_id"] == p.prompt_id]) for p in requests]
    )
    names = {"axis": "mcq", "model": model, "condition": condition, "split": "mcq"}
    replicates = run.params.evaluate.bootstrap_replicates
    rows = metric_rows(per_prompt, seed=run.params.seed, names=tuple(names.values()), replicates=replicates)
    write_evaluation(
        run,
        output,
        metrics=[{**names, **row} for row in rows],
        failures=failure_counts(per_prompt),
        per_prompt=per_prompt.assign(split="mcq"),
        tables={"generations": outcomes},
    )


if __name__ == "__main__":
    command_line()
