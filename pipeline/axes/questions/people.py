"""What the answers of held-out people score where a model's are scored, against a table of spellings and a law of the
other people. A spelling that none of those gave is in no class, as a model's is: redrawing class labels gives floors
far too low (ProtoQA: total variation .26, not .42)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline.axes.questions.question import (
    NO_ANSWER,
    OTHER,
    Question,
    known_classes,
    normalise,
    people_answers,
    read_questions,
)
from pipeline.core.random_streams import random_stream
from pipeline.errors import ArtifactError


@dataclass(frozen=True)
class PeopleSplit:
    """Some people of a question, and others who are held out."""

    table: Mapping[str, str]  # class by spelling, of the people asked and of the letters of options
    law: Mapping[str, float]  # share of the people asked by class, OTHER included where some are in no class
    held_out: list[list[str]]  # spellings of the held-out people's answers, a list for each sample of them

    def classes(self, spellings: Sequence[str | None], *, pooled: bool = True) -> list[str]:
        """The class of each answer; None is NO_ANSWER, and one in no class is OTHER or, not ``pooled``, on its own."""
        return [NO_ANSWER if text is None else self._class(text, pooled) for text in spellings]

    def _class(self, text: str, pooled: bool) -> str:
        label = self.table.get(text)
        return label if label in self.law else OTHER if pooled else f"{OTHER} {text}"


def split_people(question: Question, size: int, rng: np.random.Generator, samples: int = 1) -> PeopleSplit:
    """Split people at random into those asked and ``samples`` held-out samples of ``size`` people each. At most half
    are held out: a sample is then smaller, or several share people."""
    people = people_answers(question)
    held = min(len(people) // 2, size * samples)
    order, each = rng.permutation(len(people)), min(size, held)
    asked, pool = order[held:], order[:held]
    if each * samples <= held:
        drawn = pool[: each * samples].reshape(samples, each)
    else:
        drawn = np.stack([rng.choice(pool, each, replace=False) for _ in range(samples)])
    labels, number = np.unique([people[place][1] for place in asked], return_counts=True)
    law = {str(label): count / len(asked) for label, count in zip(labels, number, strict=True)}
    given, everyone = {normalise(people[place][0]) for place in asked}, {normalise(text) for text, _ in people}
    table = {
        normalise(text): label
        for label, texts in reversed(known_classes(question).items())
        for text in texts
        if normalise(text) in given or normalise(text) not in everyone
    }
    return PeopleSplit(table, law, [[normalise(people[place][0]) for place in row] for row in drawn])


def people_splits(question: Question, size: int, *, seed: int, number: int, samples: int = 1) -> list[PeopleSplit]:
    """Splits of one question, the same for every model, condition and axis with as many answers and samples."""
    rng = random_stream(seed, "people", question.prompt_id, size, samples)
    return [split_people(question, size, rng, samples) for _ in range(number)]


def asked_questions(prompts: Path) -> list[Question]:
    """The questions that people were asked. Raises ArtifactError where there is none."""
    questions = [question for question in read_questions(prompts) if question.human]
    if not questions:
        raise ArtifactError(f"{prompts} has no question that people were asked, which the axes human and credal need")
    return questions


def upper_band(values: Sequence[float], level: float = 0.95) -> float:
    """Below which a further sample of people lies with probability ``level``: the ceil(level (R + 1))-th of R values,
    as in conformal prediction."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    return float(ordered[min(math.ceil(level * (len(ordered) + 1)), len(ordered)) - 1])
