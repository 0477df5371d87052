"""The sets of a model's laws under several decoding settings, and to several wordings: do they hold people's law?"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from pipeline.artifacts.prompts import read_questions
from pipeline.core.random_streams import random_stream
from pipeline.core.semantics.credal_metrics import MEMBER_COLUMNS, metric_rows, question_table
from pipeline.core.semantics.partition import within_people
from pipeline.core.semantics.question import Question, people_counts
from pipeline.dag.execution import StageRun, command_line
from pipeline.stages.answer_classes import counts_by_setting, counts_by_wording
from pipeline.stages.evaluation_output import write_evaluation

SPLITS = {"settings": "all", "variants": "variants"}
"""Split of the metrics by kind of member; "variants" are a question's own wording and its paraphrases."""


ByMember = dict[str, dict[str, dict[str, int]]]
"""Answers by class, by prompt id and member."""


def _counts_by_kind(partitions: Path, questions: Sequence[Question]) -> dict[str, ByMember]:
    """Answers by kind of member; of wordings where a question has several."""
    settings = counts_by_setting(partitions, questions)
    by_question = {
        question.prompt_id: {name: counts[question.prompt_id] for name, counts in settings.items()}
        for question in questions
    }
    return {"settings": by_question, "variants": counts_by_wording(partitions)}


def _members(questions: Sequence[Question], counts: Mapping[str, ByMember]) -> pd.DataFrame:
    """How often each class was answered, by people and by every member: MEMBER_COLUMNS."""
    rows = []
    for question in questions:
        name = question.prompt_id
        members = [("settings", *item) for item in counts["settings"][name].items()]
        # The question as it is worded is the default setting.
        members += [("variants", *item) for item in list(counts["variants"].get(name, {}).items())[1:]]
        if question.human:
            members = [(kind, member, within_people(own, question)) for kind, member, own in members]
            members.append(("people", "people", people_counts(question)))
        rows += [(name, kind, member, *item) for kind, member, own in members for item in own.items()]
    return pd.DataFrame(rows, columns=list(MEMBER_COLUMNS))


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
    own, base = (_counts_by_kind(path, questions) for path in (partitions, base_partitions))
    metrics, per_prompt = [], []
    for kind, split in SPLITS.items():
        if not own[kind]:
            continue
        names = {"axis": "credal", "model": model, "condition": condition, "split": split}
        rng = random_stream(seed, "band", *names.values())
        tables = [
            question_table(questions, {name: list(found.values()) for name, found in side[kind].items()}, stream)
            for side, stream in ((own, rng), (base, None))
        ]
        replicates = run.params.evaluate.bootstrap_replicates
        rows = metric_rows(*tables, seed=seed, names=tuple(names.values()), replicates=replicates)
        metrics += [{**names, **row} for row in rows]
        per_prompt.append(tables[0].assign(split=split))
    write_evaluation(
        run,
        output,
        metrics=metrics,
        failures={},
        per_prompt=pd.concat(per_prompt, ignore_index=True),
        tables={"members": _members(questions, own)},
    )


if __name__ == "__main__":
    command_line()
