"""Metrics of open-ended random generation from generations and first-step laws; no model is loaded."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from pipeline.artifacts.generations import GENERATION_COLUMNS, read_answers
from pipeline.artifacts.prompts import read_text_prompts
from pipeline.artifacts.scores import FIRST_STEP_COLUMNS
from pipeline.artifacts.storage import rows_by_prompt
from pipeline.axes.open.open_ended import (
    HEADLINE_THRESHOLD,
    SUPPORT_THRESHOLDS,
    aggregate_open,
    answer_counts,
    failure_counts,
    open_row,
    support_sizes,
)
from pipeline.config.conditions import answer_protocol
from pipeline.core.prompts.number_answers import Invalid
from pipeline.core.prompts.protocols import AnswerProtocol
from pipeline.core.prompts.text import TextPrompt
from pipeline.core.prompts.text_answers import normalise_answer
from pipeline.dag.execution import StageRun, command_line
from pipeline.stages.evaluation_output import write_evaluation

ANSWER_COLUMNS = ("prompt_id", "category", "answer", "count")
"""Of the table answers: one row per distinct answer of a prompt, most frequent first."""


def _answers(replies: pd.DataFrame, protocol: AnswerProtocol) -> list[str | Invalid]:
    """Normalised answers, or reasons, of one prompt's generations."""
    return [normalise_answer(answer) for answers in read_answers(protocol, replies) for answer in answers]


def _support_table(laws: pd.DataFrame) -> pd.DataFrame:
    """The support size of every prompt at every threshold, prompts in the table's order."""
    rows = [
        (prompt_id, threshold, size)
        for prompt_id, probabilities in laws["probabilities"].items()
        for threshold, size in zip(SUPPORT_THRESHOLDS, support_sizes(probabilities, SUPPORT_THRESHOLDS), strict=True)
    ]
    table = pd.DataFrame(rows, columns=["prompt_id", "threshold", "support_size"])
    return table.astype({"threshold": "float64", "support_size": "int64"})


def _per_prompt(
    requests: Sequence[TextPrompt],
    answers: Mapping[str, list[str | Invalid]],
    replies: Mapping[str, pd.DataFrame],
    laws: pd.DataFrame,
    support: pd.DataFrame,
    reference_size: int,
) -> pd.DataFrame:
    truncated = {prompt_id: int((rows["finish_reason"] == "length").sum()) for prompt_id, rows in replies.items()}
    table = pd.DataFrame(
        [
            open_row(prompt, answers[prompt.prompt_id], truncated[prompt.prompt_id], reference_size)
            for prompt in requests
        ]
    )
    headline = support[support["threshold"] == HEADLINE_THRESHOLD].set_index("prompt_id")["support_size"]
    table["top_p_support_size"] = table["prompt_id"].map(headline).astype("float64")
    table["first_token_entropy_nats"] = table["prompt_id"].map(laws["entropy_nats"]).astype("float64")
    return table


def main(
    run: StageRun,
    model: str,
    condition: str,
    prompts: list[Path],
    generations: Path,
    output: Path,
    scores: Path | None = None,
) -> None:
    """Write ``metrics.json`` and the tables per_prompt, answers and support into ``output``.

    Without ``scores`` (the baselines) the support table is empty and its metrics are left out.
    """
    seed, replicates = run.params.seed, run.params.evaluate.bootstrap_replicates
    reference_size = run.params.generate.open.num_samples
    requests = read_text_prompts(*prompts)
    names = [prompt.prompt_id for prompt in requests]
    replies = rows_by_prompt(generations, GENERATION_COLUMNS, names)
    laws = pd.DataFrame(columns=list(FIRST_STEP_COLUMNS))
    if scores:
        by_prompt = rows_by_prompt(scores, FIRST_STEP_COLUMNS, names)
        laws = pd.concat([by_prompt[name] for name in names])
    laws = laws.set_index("prompt_id")
    protocol = answer_protocol(run.params, model, condition)
    answers = {prompt.prompt_id: _answers(replies[prompt.prompt_id], protocol) for prompt in requests}
    support = _support_table(laws)
    per_prompt = _per_prompt(requests, answers, replies, laws, support, reference_size)
    metrics, failures = [], {}
    for split, members in per_prompt.groupby("split", sort=False):
        names = {"axis": "open", "model": model, "condition": condition, "split": split}
        aggregated = aggregate_open(
            members, support, seed=seed, names=tuple(names.values()), bootstrap_replicates=replicates
        )
        metrics.extend({**names, **row} for row in aggregated)
        failures[split] = failure_counts(members)
    counted = [
        (prompt.prompt_id, prompt.category, *item)
        for prompt in requests
        for item in answer_counts(answers[prompt.prompt_id]).items()
    ]
    tables = {"answers": pd.DataFrame(counted, columns=list(ANSWER_COLUMNS)), "support": support}
    write_evaluation(run, output, metrics=metrics, failures=failures, per_prompt=per_prompt, tables=tables)


if __name__ == "__main__":
    command_line()
