"""How near a model's law over answers is to people's (arXiv:2509.23088), and how near other people are."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pipeline.axes.questions.answers import class_counts
from pipeline.axes.questions.distances import jensen_shannon, smoothed_divergence, total_variation
from pipeline.axes.questions.people import PeopleSplit, upper_band
from pipeline.axes.questions.question import OTHER
from pipeline.core.statistics.summarise import Statistic, mean_of

MEASURES = ("tv", "js_bits", "kl_nats", "recall", "other_mass", "same_top_answer")
STATISTICS: Mapping[str, Statistic] = {
    **{f"human_{name}": mean_of(name) for name in MEASURES},
    "human_within_band": mean_of("within_band"),
}
FLOORS = {**{f"human_{name}": f"people_{name}" for name in MEASURES}, "human_within_band": 0.95}
"""People against people; 95% of people's own samples are within the band by its definition."""


def agreement(law: Mapping[str, float], size: int, labels: Sequence[str]) -> np.ndarray:
    """MEASURES of answers against people, in their order.

    Args:
        law: Share of the people asked by class.
        size: How many were asked.
        labels: Class of each answer, among them OTHER and NO_ANSWER.
    """
    counts, people = class_counts(labels, law)
    answers = counts / counts.sum()
    names = list(dict.fromkeys((*law, *labels)))
    return np.array(
        [
            total_variation(answers, people),
            jensen_shannon(answers, people),
            smoothed_divergence(people * size, counts),
            people[counts > 0].sum(),
            answers[names.index(OTHER)] if OTHER in names else 0.0,
            float(names[int(answers.argmax())] == names[int(people.argmax())]),
        ]
    )


def question_row(
    splits: Sequence[PeopleSplit], spellings: Sequence[str | None], num_people: int, rng: np.random.Generator
) -> dict[str, Any]:
    """A model's agreement with people on one question, beside that of held-out people; means over splits.

    Args:
        splits: Of the people, with one held-out sample each.
        spellings: The model's answers, None for a reply without one. Of more than the held-out people as many are
            drawn for each split.
        num_people: People of the question.
        rng: Of these draws.

    Returns:
        MEASURES, people_MEASURE, band (the 95% quantile of held-out people's total variation) and within_band.
    """
    own, people = [], []
    for split in splits:
        (held_out,) = split.held_out
        chosen = rng.choice(len(spellings), min(len(held_out), len(spellings)), replace=False)
        asked = num_people - len(held_out)
        own.append(agreement(split.law, asked, split.classes([spellings[place] for place in chosen])))
        people.append(agreement(split.law, asked, split.classes(held_out)))
    means, floors = np.mean(own, axis=0), np.mean(people, axis=0)
    band = upper_band([row[0] for row in people])
    return {
        **dict(zip(MEASURES, means.tolist(), strict=True)),
        **{f"people_{name}": value for name, value in zip(MEASURES, floors.tolist(), strict=True)},
        "band": band,
        "within_band": float(means[0] <= band + 1e-9),
    }
