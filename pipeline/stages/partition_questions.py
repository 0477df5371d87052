"""Put every answer to a question into its class, by the rule of ``evaluate.partition``.

Under the rule "entailment" a judge reads pairs of answers behind their question, both ways round. Every verdict goes
into the cache as soon as its batch is done: a killed run loses one batch at most, and equal pairs are judged once for
all conditions. How many of the pairs of answers the judge was spared is counted.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.artifacts.generations import GENERATION_COLUMNS, PARTITION_COLUMNS, SETTING_COLUMN
from pipeline.axes.questions.artifact import read_questions
from pipeline.artifacts.score_cache import CachedScores, ScoreCache
from pipeline.artifacts.storage import rows_by_prompt, write_json, write_table
from pipeline.config.conditions import answer_protocol
from pipeline.config.evaluation import JudgeConfig
from pipeline.axes.questions.classes import Judge, classify, says_the_same
from pipeline.axes.questions.question import NO_ANSWER, Question
from pipeline.dag.execution import StageRun, command_line
from pipeline.stages.answer_classes import answer_texts


def _verdicts(run: StageRun, config: JudgeConfig, cache: Path) -> CachedScores:
    """Verdicts on pairs of texts, from the cache where known."""
    from pipeline.engines.judges.entailment import judge_identity, open_judge

    identity = judge_identity(config)
    run.record.add(judge=identity)
    kept_under = {**identity, "code": run.code_of("pipeline.engines.judges.entailment.open_judge")}
    return CachedScores(ScoreCache(cache), kept_under, lambda: open_judge(config, identity))


def _judge_of(question: Question, verdicts: Callable[[Sequence[tuple[str, str]]], np.ndarray], strict: bool) -> Judge:
    """Whether two answers say the same where they answer the question."""

    def same(pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        texts = [(f"{question.text} {first}", f"{question.text} {second}") for first, second in pairs]
        found = verdicts([*texts, *((second, first) for first, second in texts)])
        return says_the_same(*np.split(found, 2), strict=strict)

    return same


def main(
    run: StageRun, model: str, condition: str, prompts: Path, generations: Path, cache: Path, output: Path, counts: Path
) -> None:
    """Write the answer and its class for every generation, all decoding settings of a question together.

    ``counts`` is what the judge was asked: judge_pairs, ordered pairs of answers to one question, and judge_calls, the
    verdicts that these needed, those in the cache included; both 0 without a judge.
    """
    questions = {question.prompt_id: question for question in read_questions(prompts)}
    tables = rows_by_prompt(generations, (*GENERATION_COLUMNS, SETTING_COLUMN), list(questions))
    protocol, partition = answer_protocol(run.params, model, condition), run.params.evaluate.partition
    rule, judge = partition.rule, partition.judge
    verdicts = _verdicts(run, judge, cache) if rule == "entailment" else None
    found, pairs = [], 0
    for prompt_id, question in questions.items():
        table = tables[prompt_id]
        answers = answer_texts(protocol, table, rule)
        given = sum(answer is not None for answer in answers)
        pairs += given * (given - 1)
        same = _judge_of(question, verdicts, judge.strict) if verdicts is not None else None
        found.append(table.assign(answer=answers, label=classify(answers, question, rule, same)))
    classes = pd.concat(found, ignore_index=True)[list(PARTITION_COLUMNS)]
    write_table(output, classes)
    without = int((classes["label"] == NO_ANSWER).sum())
    asked = {"judge_pairs": 0, "judge_calls": 0}
    calls = {}
    if verdicts is not None:
        asked = {"judge_pairs": pairs, "judge_calls": verdicts.asked}
        calls = {**asked, "judge_calls": verdicts.calls, "cache_hits": verdicts.hits}
    write_json(counts, asked)
    run.write_record(num_answers=len(classes), num_without_answer=without, **calls)
    mean = classes.groupby(["prompt_id", SETTING_COLUMN])["label"].nunique().mean()
    print(f"{run.title}: {len(classes)} answers, {without} without an answer, {mean:.1f} classes to a question")
    if verdicts is not None:
        print(f"{pairs} pairs of answers, {verdicts.asked} verdicts of entailment, {verdicts.calls} of this run")


if __name__ == "__main__":
    command_line()
