"""The set of a model's laws under several decoding settings: does it hold people's law, and how wide is it?"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from pipeline.artifacts.prompts import read_questions
from pipeline.core.random_streams import random_stream
from pipeline.core.semantics.credal_metrics import metric_rows, question_table
from pipeline.core.semantics.partition import within_people
from pipeline.core.semantics.question import Question, people_counts
from pipeline.dag.execution import StageRun, command_line
from pipeline.stages.answer_classes import Counts, counts_by_setting, counts_by_wording
from pipeline.stages.evaluation_output import write_evaluation


def _members(
    questions: Sequence[Question], settings: Mapping[str, Counts], wordings: Mapping[str, Counts]
) -> pd.DataFrame:
    """How often each class was answered: by people, under each setting, and to each paraphrase.

    Returns:
        Columns prompt_id, kind ("people", "settings" or "variants"), member, label and count.
    """
    rows = []
    for question in questions:
        name = question.prompt_id
        members = [("settings", setting, counts[name]) for setting, counts in settings.items()]
        # The question as it is worded is the default setting.
        members += [("variants", *item) for item in list(wordings.get(name, {}).items())[1:]]
        if question.human:
            members = [(kind, member, within_people(counts, question)) for kind, member, counts in members]
            members.append(("people", "people", people_counts(question)))
        rows += [(name, kind, member, *item) for kind, member, counts in members for item in counts.items()]
    return pd.DataFrame(rows, columns=["prompt_id", "kind", "member", "label", "count"])


def main(
    run: StageRun,
    model: str,
    condition: str,
    prompts: Path,
    partitions: Path,
    base_partitions: Path,
    output: Path,
) -> None:
    """Write an evaluation directory; its table ``members`` has the answers by class behind every law."""
    questions, seed = read_questions(prompts), run.params.seed
    names = {"axis": "credal", "model": model, "condition": condition, "split": "all"}
    tables = []
    for path, rng in ((partitions, random_stream(seed, "band", *names.values())), (base_partitions, None)):
        settings, wordings = counts_by_setting(path, questions), counts_by_wording(path)
        counts = {
            question.prompt_id: [found[question.prompt_id] for found in settings.values()] for question in questions
        }
        asked = {prompt_id: list(found.values()) for prompt_id, found in wordings.items()}
        tables.append(question_table(questions, counts, rng, asked))
        if rng is not None:
            members = _members(questions, settings, wordings)
    replicates = run.params.evaluate.bootstrap_replicates
    rows = metric_rows(*tables, seed=seed, names=tuple(names.values()), replicates=replicates)
    metrics = [{**names, **row} for row in rows]
    per_prompt = tables[0].assign(split="all")
    write_evaluation(run, output, metrics=metrics, failures={}, per_prompt=per_prompt, tables={"members": members})


if __name__ == "__main__":
    command_line()
