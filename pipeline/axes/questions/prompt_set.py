"""Write a prompt set with accepted answers, people's answers or both, from JSON lines or a data set of the hub."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline.axes.questions.question import HumanClass, Question, question_problem, with_options, write_questions
from pipeline.config.prompts import QuestionsConfig
from pipeline.dag.execution import StageRun, command_line
from pipeline.errors import ArtifactError
from pipeline.sources.prompt_sets import Row, read_rows, recorded_revision, row_id, row_text

KEY = "prompts.questions"


def prompt_set(config: QuestionsConfig, revision: str | None) -> list[Question]:
    """The questions in the source's order. Raises ArtifactError, which names file and question, for an unusable one."""
    fields, convert = FORMATS[config.format]
    questions: dict[str, Question] = {}
    rows = read_rows(f"{KEY}.split", config.source, revision, config.split, fields)
    for number, row in enumerate(rows[: config.max_prompts], start=1):
        where = f"{config.source}: question {number}"
        try:
            question = convert(row, where)
        # The row's shape is not that of its format.
        except (AttributeError, KeyError, TypeError) as error:
            raise ArtifactError(f"{where}: not a question of the format {config.format} ({error!r})") from None
        if problem := question_problem(question):
            raise ArtifactError(f"{where} ({question.prompt_id}): {problem}")
        if question.prompt_id in questions:
            raise ArtifactError(f"{where}: the id {question.prompt_id!r} is there twice")
        bare = with_options(question.text, question.options)
        questions[question.prompt_id] = replace(question, text=config.template.replace("{prompt}", bare), bare=bare)
    if not questions:
        raise ArtifactError(f"{config.source} has no questions")
    return list(questions.values())


def _texts(row: Mapping[str, Any], field: str, where: str) -> tuple[str, ...]:
    """A list of texts; empty where the field is missing or null."""
    texts = row.get(field)
    if texts is not None and not (isinstance(texts, list) and all(isinstance(text, str) for text in texts)):
        raise ArtifactError(f"{where}: the field {field!r} must be a list of texts or null, got {texts!r}")
    return tuple(texts or ())


def _count(value: Any, field: str, where: str) -> int:
    if type(value) is not int or value < 0:
        raise ArtifactError(f"{where}: the field {field!r} must be a whole number of people, got {value!r}")
    return value


def _spellings(item: Mapping[str, Any], where: str) -> dict[str, int]:
    """People by spelling: an object of counts, or a list, of which all but the first are taken to be given once."""
    count, members = _count(item["count"], "count", where), item["members"]
    if not isinstance(members, dict):
        first, *others = _texts(item, "members", where) or ("",)
        members = {first: count - len(others), **dict.fromkeys(others, 1)} if first else {}
    people = {str(name): _count(number, "members", where) for name, number in members.items()}
    if people and sum(people.values()) != count:
        raise ArtifactError(
            f"{where}: the class {item['label']!r} has a count of {count} people, and its members add up to "
            f"{sum(people.values())}"
        )
    return people


def _own(row: Row, where: str) -> Question:
    human = row.get("human") or {"classes": [], "n": 0}
    return Question(
        row_id({"id": row["prompt_id"]}, where),
        row_text(row, where).strip(),
        row.get("category") or "",
        _texts(row, "options", where),
        _texts(row, "gold", where),
        tuple(HumanClass(item["label"], _spellings(item, where)) for item in human["classes"]),
        _count(human["n"], "n", where),
    )


def _protoqa(row: Row, where: str) -> Question:
    """Of ProtoQA's crowd-sourced files: people by raw answer, some in no cluster, whose most frequent is the label."""
    raw = {name: _count(count, "raw", where) for name, count in row["answers"]["raw"].items()}
    clusters = [
        {name: _count(raw.get(name), "raw", where) for name in cluster["answers"]}
        for cluster in row["answers"]["clusters"].values()
    ]
    human = tuple(HumanClass(max(own, key=lambda name: (own[name], name)), own) for own in clusters)
    text = row_text({"prompt": row["question"]["original"]}, where).strip()
    return Question(row_id(row["metadata"], where), text, human=human, num_people=sum(raw.values()))


FORMATS = {"questions": (("prompt_id", "prompt"), _own), "protoqa": (("metadata", "question", "answers"), _protoqa)}
"""By format, the fields of a row and what makes a question of it."""


def main(run: StageRun, output: Path) -> None:
    """Write the questions of ``prompts.questions``."""
    config = run.params.prompts.questions
    revision = recorded_revision(run, KEY, config)
    questions = prompt_set(config, revision)
    write_questions(output, questions)
    asked, right = sum(bool(q.human) for q in questions), sum(bool(q.gold) for q in questions)
    run.write_record(num_prompts=len(questions), num_with_people=asked, num_with_gold=right)
    print(f"{len(questions)} questions: {asked} with people's answers, {right} with accepted ones")


if __name__ == "__main__":
    command_line()
