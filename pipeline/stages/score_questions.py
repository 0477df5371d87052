"""First-step laws of questions, exact, without sampling: the most probable tokens, and the letters of options."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pipeline.artifacts.prompts import read_questions
from pipeline.artifacts.scores import QUESTION_STEP_COLUMNS
from pipeline.artifacts.storage import write_table
from pipeline.core.semantics.question import LETTERS
from pipeline.dag.execution import StageRun, command_line
from pipeline.errors import ModelError
from pipeline.stages.score_open import first_step_laws, leading_row

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def _choice_probabilities(law: np.ndarray, count: int, tokenizer: "PreTrainedTokenizerBase") -> np.ndarray:
    """Probability of each of the first ``count`` letters, float64[count], summed over its single-token spellings."""
    from pipeline.engines.loading.chat import single_tokens

    found = np.zeros(count)
    for place, letter in enumerate(LETTERS[:count]):
        tokens = single_tokens(tokenizer, [letter, f" {letter}", f"({letter}", letter.lower()])
        if not tokens:
            raise ModelError(f"the tokenizer {tokenizer.name_or_path!r} has no single token for the option {letter!r}")
        found[place] = np.exp(law[tokens].astype(np.float64)).sum()
    return found


def main(
    run: StageRun, model: str, condition: str, model_report: Path, weights: Path, prompts: Path, output: Path
) -> None:
    """Write the first-step laws of the questions."""
    options = {question.prompt_id: len(question.options) for question in read_questions(prompts)}
    rows = [
        (*leading_row(prompt_id, law), _choice_probabilities(law, options[prompt_id], tokenizer))
        for prompt_id, law, tokenizer in first_step_laws(run, model, condition, model_report, weights, [prompts])
    ]
    write_table(output, pd.DataFrame(rows, columns=list(QUESTION_STEP_COLUMNS)))
    run.write_record(num_prompts=len(rows), num_choices=sum(map(bool, options.values())))


if __name__ == "__main__":
    command_line()
