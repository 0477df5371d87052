"""The sets of a model's laws under several decoding settings, and to several wordings: do they hold people's law?"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.artifacts.generations import PARTITION_COLUMNS, SETTING_COLUMN
from pipeline.axes.questions.artifact import read_questions
from pipeline.artifacts.storage import read_table
from pipeline.core.random_streams import random_stream
from pipeline.core.semantics.credal_metrics import MEMBER_COLUMNS, metric_rows, question_table
from pipeline.core.semantics.inverse_entropy import cosine_similarities
from pipeline.axes.questions.classes import within_people
from pipeline.core.semantics.published_sets import LEAST_ANSWERS, STATISTICS, diversity, people_texts
from pipeline.core.semantics.published_sets import metric_rows as published_rows
from pipeline.axes.questions.question import Question, people_counts
from pipeline.dag.execution import StageRun, command_line
from pipeline.stages.answer_classes import counts_by_setting, counts_by_wording, split_name
from pipeline.stages.evaluation_output import write_evaluation
from pipeline.stages.text_similarity import Embed, open_similarity

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


def _diversity(
    partitions: Path, questions: Sequence[Question], settings: Sequence[str], embed: Embed, seed: int
) -> pd.DataFrame:
    """Statistics of the answers' diversity, of people's first, on the questions that have enough of every source.

    Returns:
        Columns prompt_id, source ("people" or a split) and STATISTICS.
    """
    table = read_table(partitions, PARTITION_COLUMNS).dropna(subset="answer")
    found = {names: own["answer"].tolist() for names, own in table.groupby(["prompt_id", SETTING_COLUMN])}
    rows = []
    for question in questions:
        name = question.prompt_id
        texts = {split_name(setting): found.get((name, setting), []) for setting in settings}
        rng = random_stream(seed, "published_people", name)
        sources = {"people": people_texts(question, len(texts["all"]), rng), **texts}
        if min(map(len, sources.values())) < LEAST_ANSWERS:
            continue
        places = {text: place for place, text in enumerate(dict.fromkeys(t for own in sources.values() for t in own))}
        alike = cosine_similarities(embed(list(places)))
        for source, own in sources.items():
            chosen = [places[text] for text in own]
            rows.append((name, source, *diversity(own, alike[np.ix_(chosen, chosen)])))
    return pd.DataFrame(rows, columns=["prompt_id", "source", *STATISTICS])


def main(
    run: StageRun,
    model: str,
    condition: str,
    prompts: Path,
    partitions: Path,
    base_partitions: Path,
    output: Path,
) -> None:
    """Write an evaluation directory.

    Its table ``members`` has the answers by class behind every law, ``diversity`` the statistics behind the published
    figures.
    """
    questions, seed = read_questions(prompts), run.params.seed
    own, base = (_counts_by_kind(path, questions) for path in (partitions, base_partitions))
    names = {"axis": "credal", "model": model, "condition": condition}
    metrics, per_prompt = [], []
    for kind, split in SPLITS.items():
        if not own[kind]:
            continue
        labels = {**names, "split": split}
        rng = random_stream(seed, "band", *labels.values())
        sides = [
            question_table(questions, {name: list(found.values()) for name, found in side[kind].items()}, stream)
            for side, stream in ((own, rng), (base, None))
        ]
        replicates = run.params.evaluate.bootstrap_replicates
        rows = metric_rows(*sides, seed=seed, names=tuple(labels.values()), replicates=replicates)
        metrics += [{**labels, **row} for row in rows]
        per_prompt.append(sides[0].assign(split=split))
    tables = {"members": _members(questions, own)}
    if asked := [question for question in questions if question.human]:
        settings = list(own["settings"][asked[0].prompt_id])
        embed = open_similarity(run, run.params.evaluate.inverse_entropy.similarity)
        tables["diversity"] = _diversity(partitions, asked, settings, embed, seed)
        sources = {
            source: tables["diversity"].loc[tables["diversity"]["source"] == source, list(STATISTICS)].to_numpy(float)
            for source in ("people", *map(split_name, settings))
        }
        people = sources.pop("people")
        for split, rows in published_rows(sources, people, len(asked) - len(people)).items():
            metrics += [{**names, "split": split, **row} for row in rows]
    write_evaluation(
        run,
        output,
        metrics=metrics,
        failures={},
        per_prompt=pd.concat(per_prompt, ignore_index=True),
        tables=tables,
    )


if __name__ == "__main__":
    command_line()
