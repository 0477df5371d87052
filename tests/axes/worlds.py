"""Worlds of questions whose truth is known: people with many spellings of few classes."""

import numpy as np

from pipeline.axes.questions.question import HumanClass, Question


def people_question(rng: np.random.Generator, people: int, name: str = "q") -> tuple[Question, list[str]]:
    """A question that ``people`` were asked, and a sampler's arguments: the spellings of as many other people.

    Classes follow a Dirichlet law, and half of the answers of a class are spelled as nobody else does.
    """
    law = rng.dirichlet(np.ones(int(rng.integers(3, 9))))

    def answers(size: int, mark: str) -> list[tuple[int, str]]:
        classes = rng.choice(len(law), size=size, p=law)
        return [
            (int(k), f"class {k}" if rng.random() < 0.5 else f"class {k} of {mark} {place}")
            for place, k in enumerate(classes)
        ]

    counts: dict[int, dict[str, int]] = {}
    for k, text in answers(people, "asked"):
        counts.setdefault(k, {})[text] = counts.get(k, {}).get(text, 0) + 1
    human = tuple(HumanClass(f"label {k}", spellings) for k, spellings in counts.items())
    return Question(name, "?", human=human, num_people=people), [text for _, text in answers(people, "other")]
