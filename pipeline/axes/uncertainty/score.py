"""Exact laws of the first token of questions, their entropy and the letters of options; entropy along answers."""

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pipeline.artifacts.generations import GENERATION_COLUMNS, SETTING_COLUMN
from pipeline.artifacts.storage import rows_by_prompt
from pipeline.axes.open.open_ended import law_entropy
from pipeline.axes.questions.question import LETTERS, Question, read_questions
from pipeline.config.conditions import adapter_directory
from pipeline.config.evaluation import DEFAULT_SETTING
from pipeline.dag.execution import StageRun, command_line
from pipeline.stages.resumable import resumable

QUESTION_STEP_COLUMNS = ("prompt_id", "first_token_entropy", "choice_probabilities", "mean_token_entropy")
"""One row per question: the entropy of the law of the first token over ln V, the probability of each option's letter as
the first token (empty without options), and the mean of the same entropy along the sampled answers."""

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def _choice_probabilities(law: np.ndarray, count: int, tokenizer: "PreTrainedTokenizerBase") -> list[float]:
    """Probability of each of the first ``count`` letters over its single-token spellings; NaN where it has none."""
    from pipeline.engines.loading.chat import single_tokens

    tokens = [single_tokens(tokenizer, [x, f" {x}", f"({x}", x.lower()]) for x in LETTERS[:count]]
    return [float(np.exp(law[own].astype(np.float64)).sum()) if own else math.nan for own in tokens]


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
    """Write what the laws of the first token say, and the mean entropy along the default setting's replies."""
    questions = {question.prompt_id: question for question in read_questions(prompts)}
    replies = rows_by_prompt(generations, (*GENERATION_COLUMNS, SETTING_COLUMN), list(questions))
    config = run.params.models[model]

    def rows(missing: dict[str, Question]) -> Iterator[dict[str, list]]:
        from pipeline.engines.loading.chat import answer_terminator, reply_ids
        from pipeline.engines.loading.conditioned_model import open_model
        from pipeline.engines.loading.model import position_logits
        from pipeline.engines.scoring.token_scores import RowScorer, first_step_law, mean_entropies

        probe = next(iter(questions.values())).text
        opened = open_model(config, model_report, adapter_directory(condition, weights), probe)
        logits_at, terminator = position_logits(opened.model), answer_terminator(opened.tokenizer, config.terminator)
        scorer = RowScorer(logits_at, run.params.evaluate.tokens_per_pass)
        for name, question in missing.items():
            request = opened.encode(question.text)
            law = first_step_law(logits_at, request, opened.device)
            own = replies[name][replies[name][SETTING_COLUMN] == DEFAULT_SETTING]
            # Equal replies are read once.
            counts = Counter(zip(own["text"], own["finish_reason"] == "stop", strict=True))
            texts, ended = zip(*counts, strict=True)
            entropies = mean_entropies(scorer, request, reply_ids(opened.tokenizer, texts, ended, terminator))
            entropy = float(np.average(entropies, weights=list(counts.values())))
            choices = _choice_probabilities(law, len(question.options), opened.tokenizer)
            yield {name: [name, law_entropy(law) / math.log(len(law)), choices, entropy]}

    with resumable(run, "prompt", len(questions)) as done:
        table = pd.DataFrame(done(questions, rows), columns=list(QUESTION_STEP_COLUMNS))
        if any(np.isnan(probabilities).any() for probabilities in table["choice_probabilities"]):
            print(f"{run.title}: an option's letter is no single token, so choice_entropy is left out")
        run.write_table(output, table)
        run.write_record(num_prompts=len(table), num_choices=sum(bool(q.options) for q in questions.values()))


if __name__ == "__main__":
    command_line()
