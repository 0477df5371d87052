"""Metrics of open-ended random generation from generations and first-step laws; no model is loaded."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from pipeline.artifacts.generations import GENERATION_COLUMNS, read_answers
from pipeline.artifacts.prompts import read_text_prompts
from pipeline.artifacts.scores import FIRST_STEP_COLUMNS
from pipeline.artifacts.storage import rows_by_prompt
from pipeline.axes.evaluation import ModelEvaluation
from pipeline.axes.open.open_ended import (
    ANSWER_STATISTICS,
    LAW_STATISTICS,
    SUPPORT_SIZES,
    answer_counts,
    law_row,
    open_row,
    support_table,
)
from pipeline.axes.structured.aggregate import failure_counts
from pipeline.config.conditions import answer_protocol
from pipeline.core.prompts.number_answers import Invalid
from pipeline.core.prompts.protocols import AnswerProtocol
from pipeline.core.prompts.text_answers import normalise_answer
from pipeline.dag.execution import StageRun, command_line

ANSWER_COLUMNS = ["prompt_id", "category", "answer", "count"]
"""Of the table answers: one row per distinct answer of a prompt, most frequent first."""


def _answers(replies: pd.DataFrame, protocol: AnswerProtocol) -> list[str | Invalid]:
    """Normalised answers, or reasons, of one prompt's generations."""
    return [normalise_answer(answer) for answers in read_answers(protocol, replies) for answer in answers]


def _law_rows(scores: Path, names: Sequence[str]) -> pd.DataFrame:
    laws = rows_by_prompt(scores, FIRST_STEP_COLUMNS, names)
    return pd.DataFrame([law_row(*laws[name][["probabilities", "entropy_nats"]].iloc[0]) for name in names])


def main(run: StageRun, model: str, prompts: list[Path], generations: Path, scores: Path, output: Path) -> None:
    """Write an evaluation with the tables ``answers`` and ``support``; the baselines have no first-step law."""
    evaluation, parts = ModelEvaluation(run, "open", model), []
    requests, reference_size = read_text_prompts(*prompts), run.params.generate.open.num_samples
    names, with_law = [prompt.prompt_id for prompt in requests], run.params.conditions
    for condition, replies in evaluation.rows(generations, GENERATION_COLUMNS, names):
        protocol = answer_protocol(run.params, model, condition)
        answers = {name: _answers(replies[name], protocol) for name in names}
        truncated = {name: int((replies[name]["finish_reason"] == "length").sum()) for name in names}
        rows = [open_row(p, answers[p.prompt_id], truncated[p.prompt_id], reference_size) for p in requests]
        table = pd.DataFrame(rows).assign(condition=condition)
        parts.append(table.join(_law_rows(scores / f"{condition}.parquet", names)) if condition in with_law else table)
        counted = [
            (p.prompt_id, p.category, *own) for p in requests for own in answer_counts(answers[p.prompt_id]).items()
        ]
        evaluation.add_table(condition, "answers", pd.DataFrame(counted, columns=ANSWER_COLUMNS))
    per_prompt = pd.concat(parts, ignore_index=True)
    for (condition, split), own in per_prompt.groupby(["condition", "split"], sort=False):
        evaluation.add_table(condition, "per_prompt", own.drop(columns=["condition", *SUPPORT_SIZES]))
        evaluation.add_table(condition, "support", support_table(own))
        evaluation.failures[condition][split] = failure_counts(own)
    for split, members in per_prompt.groupby("split", sort=False):
        evaluation.summarise(members, ANSWER_STATISTICS, split=split)
        evaluation.summarise(members[members["condition"].isin(with_law)], LAW_STATISTICS, split=split)
    evaluation.write(output)


if __name__ == "__main__":
    command_line()
