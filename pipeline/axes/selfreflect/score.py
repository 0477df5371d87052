"""What a judge thinks of hidden words of a model's answers: given a summary of others, and given their list."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from pipeline.artifacts.generations import GENERATION_COLUMNS
from pipeline.artifacts.model_report import model_revision
from pipeline.artifacts.prompts import read_text_prompts
from pipeline.artifacts.scores import WORD_DISTANCE_COLUMNS
from pipeline.artifacts.storage import rows_by_prompt
from pipeline.axes.questions.answers import read_partition
from pipeline.axes.questions.question import NO_ANSWER, Question, read_questions
from pipeline.axes.selfreflect.summaries import (
    SUMMARIES,
    answer_list,
    listed_and_tested,
    masked_words,
    perfect_summary,
    tempered_distance,
    word_request,
)
from pipeline.config.evaluation import DEFAULT_SETTING
from pipeline.core.prompts.number_answers import strip_reasoning
from pipeline.dag.execution import StageRun, command_line
from pipeline.stages.resumable import resumable

if TYPE_CHECKING:
    from pipeline.engines.judges.word_judge import WordJudge
    from pipeline.engines.loading.conditioned_model import ConditionedModel

Summaries = dict[tuple[str, str], list[str]]
"""Texts by question and kind of summary."""


def _judge(run: StageRun, model: str, report: Path) -> "Callable[[], ConditionedModel]":
    """What opens the configured judge, or the base checkpoint that is evaluated; the record says which."""
    from pipeline.engines.judges.text_judges import pinned
    from pipeline.engines.loading.conditioned_model import open_checkpoint

    config = run.params.selfreflect.judge
    if config is None:
        config = run.params.models[model]
        identity = {"repository": config.checkpoint, "revision": model_revision(report)}
    else:
        identity = pinned(config.checkpoint, config.revision)
    run.record.add(judge=identity)
    return lambda: open_checkpoint(config, identity.get("revision"))


def read_summaries(requests: Path, generations: Path, lists: Mapping[str, Sequence[str]]) -> Summaries:
    """What the model wrote, the counts of the lists in words, and the summaries of other questions."""
    asked, names = read_text_prompts(requests), list(lists)
    replies = rows_by_prompt(generations, GENERATION_COLUMNS, [request.prompt_id for request in asked])
    summaries = {
        (request.category, request.split): [strip_reasoning(text) or "" for text in replies[request.prompt_id]["text"]]
        for request in asked
    }
    for place, name in enumerate(names):
        # The null of a question is the summary of the one half the set further on.
        other = names[(place + len(names) // 2) % len(names)]
        summaries |= {(name, "perfect"): [perfect_summary(lists[name])], (name, "null"): summaries[other, "sampled"]}
    return summaries


def judged(
    judge: "WordJudge",
    question: Question,
    answers: tuple[list[str], list[str]],
    summaries: Summaries,
    temperature: float,
) -> list[list[Any]]:
    """The distances of one question, WORD_DISTANCE_COLUMNS behind the question."""
    listed, tested = answers
    outcomes = judge.first_tokens(
        [word for answer in {*listed, *tested} - {NO_ANSWER} for word, _ in masked_words(answer)]
    )
    # The columns, then the requests behind the list and behind the summary.
    compared = [
        (kind, index, answer, word, *(word_request(question.text, text, masked) for text in (shown, summary)))
        for shown in [answer_list(listed)]
        for answer, kind in itertools.product(tested, SUMMARIES)
        for word, masked in masked_words(answer)
        for index, summary in enumerate(summaries[question.prompt_id, kind])
    ]
    # Equal requests are judged once. No pass has requests of two questions, so that a law does not depend on where a
    # run was interrupted.
    asked = list(dict.fromkeys(text for row in compared for text in row[-2:]))
    laws = {asked[index]: law for batch in judge.laws(asked, outcomes) for index, law in batch}
    return [[*names, tempered_distance(laws[first], laws[second], temperature)] for *names, first, second in compared]


def main(
    run: StageRun,
    model: str,
    condition: str,
    model_report: Path,
    prompts: Path,
    partitions: Path,
    requests: Path,
    generations: Path,
    output: Path,
) -> None:
    """Write the distance of the judge's laws for each summary and hidden word."""
    from pipeline.engines.judges.word_judge import WordJudge

    settings, questions = run.params.selfreflect, {each.prompt_id: each for each in read_questions(prompts)}
    partition = read_partition(partitions, list(questions.values()))[DEFAULT_SETTING]
    answers = {name: listed_and_tested(partition[name].texts, settings.test_answers) for name in questions}
    summaries = read_summaries(requests, generations, {name: listed for name, (listed, _) in answers.items()})
    open_judge = _judge(run, model, model_report)

    def distances(missing: dict[str, Question]) -> Iterator[dict[str, list]]:
        judge = WordJudge(open_judge(), settings.tokens_per_pass)
        for name, question in missing.items():
            yield {name: judged(judge, question, answers[name], summaries, settings.temperature)}

    with resumable(run, "prompt", len(questions)) as done:
        results = zip(questions, done(questions, distances), strict=True)
        rows = [(name, *row) for name, found in results for row in found]
        table = pd.DataFrame(rows, columns=list(WORD_DISTANCE_COLUMNS)).astype({"distance": float})
        run.write_table(output, table)
        run.write_record(num_prompts=len(questions), num_words=len(rows))


if __name__ == "__main__":
    command_line()
