"""Read the answer in every reply to a question and put it into its class, by the rule of ``evaluate.partition``.

Under the rule "entailment" a judge reads pairs of answers behind their question, both ways round. Every verdict is
cached as soon as its batch is done: a killed run loses one batch at most, and equal pairs are judged once for all
conditions. People's spellings are judged like a model's, so that held-out people can be scored as a model is.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.artifacts.generations import GENERATION_COLUMNS, SETTING_COLUMN, read_answers
from pipeline.artifacts.score_cache import CachedScores, ScoreCache
from pipeline.artifacts.storage import rows_by_prompt, write_table
from pipeline.axes.questions.answers import JUDGED_COLUMNS, PARTITION_COLUMNS, answer_texts, styled_answers
from pipeline.axes.questions.artifact import read_questions
from pipeline.axes.questions.classes import Judge, by_judge, classify, known_classes, says_the_same, spelling_key
from pipeline.axes.questions.question import NO_ANSWER, Question
from pipeline.config.conditions import answer_protocol
from pipeline.config.evaluation import JudgeConfig
from pipeline.dag.execution import StageRun, command_line

Verdicts = Callable[[Sequence[tuple[str, str]]], np.ndarray]


def _verdicts(run: StageRun, config: JudgeConfig, cache: Path) -> CachedScores:
    """Verdicts on pairs of texts, from the cache where known."""
    from pipeline.engines.judges.entailment import judge_identity, open_judge

    identity = judge_identity(config)
    run.record.add(judge=identity)
    kept_under = {**identity, "code": run.code_of("pipeline.engines.judges.entailment.open_judge")}
    return CachedScores(ScoreCache(cache), kept_under, lambda: open_judge(config, identity))


def _judge_of(question: Question, verdicts: Verdicts, strict: bool) -> Judge:
    """Whether two answers say the same where they answer the question."""

    def same(pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        texts = [(f"{question.text} {first}", f"{question.text} {second}") for first, second in pairs]
        found = verdicts([*texts, *((second, first) for first, second in texts)])
        return says_the_same(*np.split(found, 2), strict=strict)

    return same


def main(
    run: StageRun, model: str, condition: str, prompts: Path, generations: Path, cache: Path, output: Path, judged: Path
) -> None:
    """Write the answer and its class for every generation, and the judge's classes of spellings by themselves."""
    questions = {question.prompt_id: question for question in read_questions(prompts)}
    tables = rows_by_prompt(generations, (*GENERATION_COLUMNS, SETTING_COLUMN), list(questions))
    protocol, partition = answer_protocol(run.params, model, condition), run.params.evaluate.partition
    rule, styles = partition.rule, run.params.generate.questions.styles
    key, verdicts = spelling_key(rule), None
    if rule == "entailment":
        verdicts = _verdicts(run, partition.judge, cache)
    found, alone = [], []
    for prompt_id, question in questions.items():
        table = tables[prompt_id].reset_index(drop=True)
        answers = pd.Series(answer_texts(protocol, table, rule), index=table.index, dtype=object)
        for name, style in styles.items():
            own = table[table[SETTING_COLUMN] == name]
            replies = [each[0] for each in read_answers(protocol, own)]
            answers[own.index] = pd.Series(styled_answers(replies, style, question), index=own.index, dtype=object)
        spellings = [key(answer) or None if answer is not None else None for answer in answers]
        same = _judge_of(question, verdicts, partition.judge.strict) if verdicts is not None else None
        labels = classify(answers.tolist(), question, rule, same)
        found.append(table.assign(answer=answers, spelling=spellings, label=labels))
        if same is not None:
            people = (key(text) for item in question.human for text in item.answers)
            texts = list(dict.fromkeys(text for text in (*spellings, *people) if text))
            by_text = by_judge(texts, list(known_classes(question, rule)), same)
            alone += [(prompt_id, text, label) for text, label in by_text.items()]
    classes = pd.concat(found, ignore_index=True)[list(PARTITION_COLUMNS)]
    write_table(output, classes)
    write_table(judged, pd.DataFrame(alone, columns=list(JUDGED_COLUMNS)))
    without = int((classes["label"] == NO_ANSWER).sum())
    calls = {} if verdicts is None else {"judge_calls": verdicts.calls, "cache_hits": verdicts.hits}
    run.write_record(num_answers=len(classes), num_without_answer=without, **calls)
    print(f"{run.title}: {len(classes)} answers, {without} without an answer, {calls or 'no judge'}")


if __name__ == "__main__":
    command_line()
