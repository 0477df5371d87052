"""Prompt sets with accepted answers, people's answers or both: our own format, and ProtoQA.

Each is a file of JSON lines, or a data set of the hub with the same fields.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pipeline.axes.questions.classes import normalise
from pipeline.axes.questions.question import HumanClass, Question, question_problem, with_options
from pipeline.config.questions import QuestionsConfig
from pipeline.errors import ArtifactError
from pipeline.sources.prompt_rows import Row, read_rows, row_id, row_text

KEY = "prompts.questions"


def read_questions(config: QuestionsConfig, revision: str | None) -> list[Question]:
    """The questions in the source's order.

    Raises:
        ConfigError: A data set has no such split, or a file is given one. ArtifactError: A question is empty, there
            twice, without answers or at odds with itself; names file and question.
    """
    fields, convert = FORMATS[config.format]
    questions: dict[str, Question] = {}
    rows = read_rows(KEY, config.source, revision, config.split, fields)
    for number, row in enumerate(rows[: config.max_prompts], start=1):
        where = f"{config.source}: question {number}"
        try:
            question = convert(row, number, where)
        # The row's shape is not that of its format.
        except (AttributeError, KeyError, TypeError) as error:
            raise ArtifactError(f"{where}: not a question of the format {config.format} ({error!r})") from None
        if problem := question_problem(question, normalise):
            raise ArtifactError(f"{where} ({question.prompt_id}): {problem}")
        if question.prompt_id in questions:
            raise ArtifactError(f"{where}: the id {question.prompt_id!r} is there twice")
        shown = [with_options(text, question.options) for text in (question.text, *question.variants)]
        asked = [config.template.replace("{prompt}", text) for text in shown]
        questions[question.prompt_id] = replace(question, text=asked[0], variants=tuple(asked[1:]), bare=shown[0])
    if not questions:
        raise ArtifactError(f"{config.source} has no questions")
    return list(questions.values())


def _texts(row: Mapping[str, Any], field: str, where: str) -> tuple[str, ...]:
    """A list of texts; empty where the field is missing or null."""
    found = row.get(field)
    if found is not None and not (isinstance(found, list) and all(isinstance(text, str) for text in found)):
        raise ArtifactError(f"{where}: the field {field!r} must be a list of texts or null, got {found!r}")
    return tuple(found or ())


def _count(value: Any, field: str, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ArtifactError(f"{where}: the field {field!r} must be a whole number of people, got {value!r}")
    return value


def _spellings(item: Mapping[str, Any], where: str) -> dict[str, int]:
    """People by spelling: an object of counts, or a list, of which all but the first are taken to be given once."""
    count, members = _count(item["count"], "count", where), item["members"]
    if not isinstance(members, dict):
        first, *others = _texts(item, "members", where) or ("",)
        members = {first: count - len(others), **dict.fromkeys(others, 1)} if first else {}
    found = {str(name): _count(number, "members", where) for name, number in members.items()}
    if found and sum(found.values()) != count:
        raise ArtifactError(
            f"{where}: the class {item['label']!r} has a count of {count} people, and its members add up to "
            f"{sum(found.values())}"
        )
    return found


def _own(row: Row, number: int, where: str) -> Question:
    human = row.get("human") or {"classes": [], "n": 0}
    return Question(
        row_id({"id": row["prompt_id"]}, where),
        row_text(row, where).strip(),
        row.get("category") or "",
        _texts(row, "options", where),
        _texts(row, "gold", where),
        tuple(HumanClass(item["label"], _spellings(item, where)) for item in human["classes"]),
        _count(human["n"], "n", where),
        _texts(row, "variants", where),
    )


def _protoqa(row: Row, number: int, where: str) -> Question:
    """Of ProtoQA's crowd-sourced files; a cluster is called like its most frequent answer.

    People are counted by their raw answers, some of which are in no cluster.
    """
    raw, clusters = row["answers"]["raw"], row["answers"]["clusters"]
    human = tuple(
        HumanClass(
            max(cluster["answers"], key=lambda name: (raw.get(name, 0), name)),
            {name: _count(raw.get(name), "raw", where) for name in cluster["answers"]},
        )
        for cluster in clusters.values()
    )
    people = sum(_count(count, "raw", where) for count in raw.values())
    text = row_text({"prompt": row["question"]["original"]}, where).strip()
    return Question(row_id(row["metadata"], where), text, "", human=human, num_people=people)


FORMATS = {"questions": (("prompt_id", "prompt"), _own), "protoqa": (("metadata", "question", "answers"), _protoqa)}
"""By format, the fields of a row and what makes a question of it."""
