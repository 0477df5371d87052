"""Read the answer in every reply to a question and put it into its class, by the rule of ``evaluate.partition``.

Under the rule "entailment" a judge reads pairs of answers behind their question, both ways round; equal pairs are
judged once. Against people, answers are compared by spelling alone: nobody judges what held-out people said.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.artifacts.generations import GENERATION_COLUMNS, SETTING_COLUMN, read_answers
from pipeline.artifacts.storage import rows_by_prompt
from pipeline.axes.questions.answers import PARTITION_COLUMNS, answer_text
from pipeline.axes.questions.classes import Judge, classify, known_classes, normalise, says_the_same
from pipeline.axes.questions.question import NO_ANSWER, Question, read_questions
from pipeline.config.conditions import answer_protocol
from pipeline.config.evaluation import StyleConfig
from pipeline.core.prompts.number_answers import Invalid
from pipeline.dag.execution import StageRun, command_line
from pipeline.stages.resumable import pair_scores, resumable

Verdicts = Callable[[Sequence[tuple[str, str]]], np.ndarray]


def styled_answer(reply: str | Invalid, style: StyleConfig | None, question: Question) -> str | None:
    """The answer in a reply, by the rule of the style it was asked for in; None where the rule finds none."""
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
    """The spelling of a known answer that a reply mentions, of several the longest; else the reply itself.

    None for a reply without a letter or digit, and for one that mentions answers of several classes.
    """
    words = f" {normalise(reply)} "
    if not words.strip():
        return None
    found = {
        spelling: label
        for label, texts in known_classes(question).items()
        for spelling in map(normalise, texts)
        if len(spelling) > 1 and f" {spelling} " in words
    }
    if not found:
        return reply.strip()
    longest = max(found, key=len)
    rest = words.replace(f" {longest} ", "  ")
    others = {label for spelling, label in found.items() if f" {spelling} " in rest}
    return longest if others <= {found[longest]} else None


def _judge_of(question: Question, verdicts: Verdicts, strict: bool) -> Judge:
    """Whether two answers say the same where they answer the question."""

    def same(pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        texts = [(f"{question.text} {first}", f"{question.text} {second}") for first, second in pairs]
        found = verdicts([*texts, *((second, first) for first, second in texts)])
        return says_the_same(*np.split(found, 2), strict=strict)

    return same


def main(run: StageRun, model: str, condition: str, prompts: Path, generations: Path, output: Path) -> None:
    """Write the answer and its class for every generation."""
    from pipeline.engines.judges.text_judges import judge_identity, open_judge

    questions = {question.prompt_id: question for question in read_questions(prompts)}
    tables = rows_by_prompt(generations, (*GENERATION_COLUMNS, SETTING_COLUMN), list(questions))
    protocol, partition = answer_protocol(run.params, model, condition), run.params.evaluate.partition
    styles, judge = run.params.generate.questions.styles, partition.judge
    identity = judge_identity(judge) if partition.rule == "entailment" else None
    run.record.add(**({"judge": identity} if identity else {}))
    found = []
    with resumable(run, "pair") as done:
        verdicts = pair_scores(done, lambda: open_judge(judge, identity)) if identity else None
        for prompt_id, question in questions.items():
            table = tables[prompt_id]
            replies = zip(read_answers(protocol, table), table[SETTING_COLUMN], strict=True)
            answers = [styled_answer(reply[0], styles.get(setting), question) for reply, setting in replies]
            spellings = [normalise(answer) or None if answer is not None else None for answer in answers]
            same = _judge_of(question, verdicts, judge.strict) if verdicts is not None else None
            found.append(table.assign(answer=answers, spelling=spellings, label=classify(answers, question, same)))
        classes = pd.concat(found, ignore_index=True)[list(PARTITION_COLUMNS)]
        run.write_table(output, classes)
        without = int((classes["label"] == NO_ANSWER).sum())
        run.write_record(num_answers=len(classes), num_without_answer=without)
    print(f"{run.title}: {len(classes)} answers, {without} without an answer")


if __name__ == "__main__":
    command_line()
