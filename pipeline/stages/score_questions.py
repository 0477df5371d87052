"""First-step laws of questions, exact: the most probable tokens, and the letters of options; laws along answers."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pipeline.artifacts.generations import GENERATION_COLUMNS, SETTING_COLUMN
from pipeline.axes.questions.artifact import read_questions
from pipeline.artifacts.scores import QUESTION_STEP_COLUMNS
from pipeline.artifacts.storage import rows_by_prompt, write_table
from pipeline.config.evaluation import DEFAULT_SETTING
from pipeline.axes.questions.question import LETTERS, Question
from pipeline.dag.execution import StageRun, command_line
from pipeline.errors import ModelError
from pipeline.stages.score_open import first_step_laws, leading_row, open_requested

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from pipeline.engines.loading.conditioned_model import ConditionedModel
    from pipeline.engines.scoring.step_measures import StepMeasures


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


def _step_means(
    scorer: "StepMeasures", opened: "ConditionedModel", terminator: int, question: Question, replies: pd.DataFrame
) -> dict[str, float]:
    """Means of the laws' measures over the steps of each reply, and then over the replies.

    Replies are read as the tokenizer splits their text, which a model that samples may have split otherwise.
    """
    from pipeline.engines.loading.chat import reply_ids

    # Equal replies are read once.
    counts = Counter(zip(replies["text"], replies["finish_reason"] == "stop", strict=True))
    texts, ended = zip(*counts, strict=True)
    found = scorer.means(opened.encode(question.text), reply_ids(opened.tokenizer, texts, ended, terminator))
    return {name: float(np.average(values, weights=list(counts.values()))) for name, values in found.items()}


def main(
    run: StageRun,
    model: str,
    condition: str,
    model_report: Path,
    weights: Path,
    prompts: Path,
    generations: Path,
    output: Path,
) -> None:
    """Write the first-step laws of the questions, and means of their measures along the default setting's replies."""
    from pipeline.engines.loading.chat import answer_terminator
    from pipeline.engines.scoring.step_measures import StepMeasures

    questions = read_questions(prompts)
    names = [question.prompt_id for question in questions]
    replies = rows_by_prompt(generations, (*GENERATION_COLUMNS, SETTING_COLUMN), names)
    opened, logits_at = open_requested(run, model, condition, model_report, weights, questions)
    terminator = answer_terminator(opened.tokenizer, run.params.models[model].terminator)
    scorer = StepMeasures(logits_at, run.params.evaluate.tokens_per_pass)
    rows = []
    for question, law in first_step_laws(run, opened, logits_at, questions):
        own = replies[question.prompt_id]
        rows.append(
            (
                *leading_row(question.prompt_id, law),
                _choice_probabilities(law, len(question.options), opened.tokenizer),
                _step_means(scorer, opened, terminator, question, own[own[SETTING_COLUMN] == DEFAULT_SETTING]),
            )
        )
    write_table(output, pd.DataFrame(rows, columns=list(QUESTION_STEP_COLUMNS)))
    run.write_record(num_prompts=len(rows), num_choices=sum(bool(question.options) for question in questions))


if __name__ == "__main__":
    command_line()
