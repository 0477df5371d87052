"""Read the answer in every reply to a question and put it into its class."""

from pathlib import Path

import pandas as pd

from pipeline.artifacts.generations import GENERATION_COLUMNS, SETTING_COLUMN, read_answers
from pipeline.artifacts.storage import rows_by_prompt
from pipeline.axes.questions.answers import PARTITION_COLUMNS, answer_text
from pipeline.axes.questions.question import NO_ANSWER, Question, classify, known_classes, normalise, read_questions
from pipeline.config.conditions import answer_protocol
from pipeline.config.evaluation import StyleConfig
from pipeline.core.prompts.number_answers import Invalid
from pipeline.dag.execution import StageRun, command_line


def styled_answer(reply: str | Invalid, style: StyleConfig | None, question: Question) -> str | None:
    """The answer in a reply, by the rule of the style it was asked for in; None where there is none."""
    if style is None or isinstance(reply, Invalid):
        return answer_text(reply)
    if style.read == "mentioned":
        return mentioned(reply, question)
    if style.read == "after":
        _, mark, reply = reply.rpartition(str(style.mark))
        if not mark:
            return None
    return answer_text(reply)


def mentioned(reply: str, question: Question) -> str | None:
    """The spelling of a known answer that a reply mentions, of several the longest; else the reply itself. None without
    a letter or digit, and where it mentions answers of several classes."""
    words = f" {normalise(reply)} "
    if not words.strip():
        return None
    labels = {
        spelling: label
        for label, texts in known_classes(question).items()
        for spelling in map(normalise, texts)
        if len(spelling) > 1 and f" {spelling} " in words
    }
    if not labels:
        return reply.strip()
    longest = max(labels, key=len)
    rest = words.replace(f" {longest} ", "  ")
    others = {label for spelling, label in labels.items() if f" {spelling} " in rest}
    return longest if others <= {labels[longest]} else None


def main(run: StageRun, model: str, condition: str, prompts: Path, generations: Path, output: Path) -> None:
    """Write the answer and its class for every generation."""
    questions = {question.prompt_id: question for question in read_questions(prompts)}
    tables = rows_by_prompt(generations, (*GENERATION_COLUMNS, SETTING_COLUMN), list(questions))
    protocol, styles = answer_protocol(run.params, model, condition), run.params.generate.questions.styles
    parts = []
    for prompt_id, question in questions.items():
        table = tables[prompt_id]
        replies = zip(read_answers(protocol, table), table[SETTING_COLUMN], strict=True)
        answers = [styled_answer(reply, styles.get(setting), question) for reply, setting in replies]
        spellings = [normalise(answer) or None if answer is not None else None for answer in answers]
        parts.append(table.assign(answer=answers, spelling=spellings, label=classify(answers, question)))
    classes = pd.concat(parts, ignore_index=True)[list(PARTITION_COLUMNS)]
    run.write_table(output, classes)
    without = int((classes["label"] == NO_ANSWER).sum())
    run.write_record(num_answers=len(classes), num_without_answer=without)
    print(f"{run.title}: {len(classes)} answers, {without} without an answer")


if __name__ == "__main__":
    command_line()
