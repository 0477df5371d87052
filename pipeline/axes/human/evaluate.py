"""How near a model's law over answers is to people's (arXiv:2509.23088), and how near other people are."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pipeline.axes.evaluation import ModelEvaluation
from pipeline.axes.questions.answers import Answers, answer_rows, answer_splits, class_counts, read_partitions
from pipeline.axes.questions.people import PeopleSplit, asked_questions, people_splits, upper_band
from pipeline.axes.questions.question import Question
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.summarise import mean_of
from pipeline.dag.execution import StageRun, command_line

MEASURES = ("tv", "recall")
STATISTICS = {f"human_{name}": mean_of(name) for name in (*MEASURES, "within_band")}
FLOORS = {**{f"human_{name}": f"people_{name}" for name in MEASURES}, "human_within_band": 0.95}
"""People against people; 95% of people's own samples are within the band by its definition."""


def agreement(law: Mapping[str, float], labels: Sequence[str]) -> np.ndarray:
    """MEASURES of answers, by class, against the law of the people asked, in their order."""
    counts, people = class_counts(labels, law)
    variation = np.abs(counts / counts.sum() - people).sum() / 2
    return np.array([variation, people[counts > 0].sum()])


def question_row(
    splits: Sequence[PeopleSplit], spellings: Sequence[str | None], rng: np.random.Generator
) -> dict[str, float]:
    """A model's agreement with people on one question, beside that of held-out people, as means over splits (of more
    answers than held-out people as many are drawn): MEASURES, people_MEASURE and within_band."""
    own, people = [], []
    for split in splits:
        (held_out,) = split.held_out
        chosen = rng.choice(len(spellings), min(len(held_out), len(spellings)), replace=False)
        own.append(agreement(split.law, split.classes([spellings[place] for place in chosen])))
        people.append(agreement(split.law, split.classes(held_out)))
    means, band = np.mean(own, axis=0).tolist(), upper_band([row[0] for row in people])
    return {
        **dict(zip(MEASURES, means, strict=True)),
        **dict(zip((f"people_{name}" for name in MEASURES), np.mean(people, axis=0).tolist(), strict=True)),
        "within_band": float(means[0] <= band + 1e-9),
    }


def main(run: StageRun, model: str, prompts: Path, partitions: Path, output: Path) -> None:
    params, settings, evaluation = run.params, answer_splits(run.params), ModelEvaluation(run, "human", model)
    questions = asked_questions(prompts)
    answers = read_partitions(evaluation, partitions, questions, settings.values())

    def row(question: Question, own: Answers, condition: str) -> dict[str, float]:
        number = params.evaluate.floor_replicates
        splits = people_splits(question, len(own.spellings), seed=params.seed, number=number)
        return question_row(splits, own.spellings, random_stream(params.seed, "subset", question.prompt_id))

    for split, setting in settings.items():
        rows = answer_rows(answers, questions, row, setting)
        evaluation.summarise(rows, STATISTICS, FLOORS, split)
        evaluation.add_tables("per_prompt", rows.assign(split=split))
    evaluation.write(output)


if __name__ == "__main__":
    command_line()
