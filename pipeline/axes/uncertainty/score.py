"""First-token laws of questions, exact: the most probable tokens, and the letters of options; entropy along answers."""

import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pipeline.artifacts.generations import GENERATION_COLUMNS, SETTING_COLUMN
from pipeline.artifacts.scores import FIRST_STEP_COLUMNS
from pipeline.artifacts.storage import rows_by_prompt
from pipeline.axes.open.open_ended import law_entropy, leading_tokens
from pipeline.axes.questions.question import LETTERS, Question, read_questions
from pipeline.config.conditions import adapter_directory
from pipeline.config.evaluation import DEFAULT_SETTING
from pipeline.dag.execution import StageRun, command_line

QUESTION_STEP_COLUMNS = (*FIRST_STEP_COLUMNS, "choice_probabilities", "mean_token_entropy")
"""One row per question: the law of the first token, the probability of each option's letter as the first token (empty
without options), and the mean entropy of the laws of the next token along the sampled answers, over ln V."""

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from pipeline.engines.loading.conditioned_model import ConditionedModel
    from pipeline.engines.scoring.token_scores import RowScorer


def _choice_probabilities(law: np.ndarray, count: int, tokenizer: "PreTrainedTokenizerBase") -> np.ndarray:
    """Probability of each of the first ``count`` letters over its single-token spellings; NaN where it has none."""
    from pipeline.engines.loading.chat import single_tokens

    found = np.zeros(count)
    for place, letter in enumerate(LETTERS[:count]):
        tokens = single_tokens(tokenizer, [letter, f" {letter}", f"({letter}", letter.lower()])
        found[place] = np.exp(law[tokens].astype(np.float64)).sum() if tokens else math.nan
    return found


def _mean_entropy(
    scorer: "RowScorer", opened: "ConditionedModel", terminator: int, question: Question, replies: pd.DataFrame
) -> float:
    """Mean over replies of the mean entropy over their tokens, as the tokenizer splits their text."""
    from pipeline.engines.loading.chat import reply_ids
    from pipeline.engines.scoring.replies import mean_entropies

    # Equal replies are read once.
    counts = Counter(zip(replies["text"], replies["finish_reason"] == "stop", strict=True))
    texts, ended = zip(*counts, strict=True)
    encoded = reply_ids(opened.tokenizer, texts, ended, terminator)
    found = mean_entropies(scorer, opened.encode(question.text), encoded)
    return float(np.average(found, weights=list(counts.values())))


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
    """Write the first-step laws of the questions, and the mean entropy along the default setting's replies."""
    from pipeline.engines.loading.chat import answer_terminator
    from pipeline.engines.loading.conditioned_model import open_model
    from pipeline.engines.loading.model import position_logits
    from pipeline.engines.scoring.token_scores import RowScorer, first_step_law

    questions = read_questions(prompts)
    names = [question.prompt_id for question in questions]
    replies = rows_by_prompt(generations, (*GENERATION_COLUMNS, SETTING_COLUMN), names)
    adapter = adapter_directory(condition, weights)
    opened = open_model(run.params.models[model], model_report, adapter, questions[0].text)
    logits_at = position_logits(opened.model)
    terminator = answer_terminator(opened.tokenizer, run.params.models[model].terminator)
    scorer = RowScorer(logits_at, run.params.evaluate.tokens_per_pass)
    rows = []
    for question in questions:
        law = first_step_law(logits_at, opened.encode(question.text), opened.device)
        own = replies[question.prompt_id]
        rows.append(
            (
                question.prompt_id,
                *(*leading_tokens(law), law_entropy(law), len(law)),
                _choice_probabilities(law, len(question.options), opened.tokenizer),
                _mean_entropy(scorer, opened, terminator, question, own[own[SETTING_COLUMN] == DEFAULT_SETTING]),
            )
        )
    table = pd.DataFrame(rows, columns=list(QUESTION_STEP_COLUMNS))
    if any(np.isnan(probabilities).any() for probabilities in table["choice_probabilities"]):
        print(f"{run.title}: an option's letter is no single token, so choice_entropy is left out")
    run.write_table(output, table)
    run.write_record(num_prompts=len(rows), num_choices=sum(bool(question.options) for question in questions))


if __name__ == "__main__":
    command_line()
