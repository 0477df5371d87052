"""What the evaluations of answers to questions share: how often each class was answered, by setting and question."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from pipeline.artifacts.generations import PARTITION_COLUMNS, SETTING_COLUMN
from pipeline.artifacts.storage import read_table
from pipeline.config.evaluation import DEFAULT_SETTING
from pipeline.core.semantics.partition import counts_of
from pipeline.core.semantics.question import Question
from pipeline.errors import ArtifactError

Counts = dict[str, dict[str, int]]
"""Answers by class, by prompt id."""


def counts_by_setting(partitions: Path, questions: Sequence[Question]) -> dict[str, Counts]:
    """Counts of each decoding setting, the default one first. Raises ArtifactError for a question without answers."""
    table = read_table(partitions, PARTITION_COLUMNS)
    found: dict[str, Counts] = {name: {} for name in (DEFAULT_SETTING, *table[SETTING_COLUMN].unique())}
    for (setting, prompt_id), own in table.groupby([SETTING_COLUMN, "prompt_id"], sort=False):
        found[setting][prompt_id] = counts_of(own["label"].tolist())
    for setting, counts in found.items():
        for question in questions:
            if question.prompt_id not in counts:
                raise ArtifactError(
                    f"{partitions} has no answers to the question {question.prompt_id} (setting {setting})"
                )
    return found


def default_answers(partitions: Path, questions: Sequence[Question]) -> dict[str, pd.DataFrame]:
    """Rows of the default decoding setting by prompt id, in the order of their samples; ``answer`` is None where null.

    Raises ArtifactError for a question without answers.
    """
    table = read_table(partitions, PARTITION_COLUMNS)
    table = table[table[SETTING_COLUMN] == DEFAULT_SETTING].sort_values("sample_index", kind="stable")
    table = table.assign(answer=table["answer"].astype(object).where(table["answer"].notna(), None))
    found = dict(iter(table.groupby("prompt_id")))
    for question in questions:
        if question.prompt_id not in found:
            raise ArtifactError(f"{partitions} has no answers to the question {question.prompt_id}")
    return found


def split_name(setting: str) -> str:
    """The split that a setting is reported as: "all" for the default one."""
    return "all" if setting == DEFAULT_SETTING else setting
