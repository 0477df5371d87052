"""How near a model's law over answers is to people's (arXiv:2509.23088), and how near other people are."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import rel_entr

from pipeline.axes.questions.answers import class_counts
from pipeline.axes.questions.people import PeopleSplit, total_variation, upper_band
from pipeline.axes.questions.question import OTHER
from pipeline.core.statistics.summarise import mean_of

MEASURES = ("tv", "js_bits", "recall", "other_mass", "same_top_answer")
STATISTICS = {f"human_{name}": mean_of(name) for name in (*MEASURES, "within_band")}
FLOORS = {**{f"human_{name}": f"people_{name}" for name in MEASURES}, "human_within_band": 0.95}
"""People against people; 95% of people's own samples are within the band by its definition."""


def jensen_shannon(first: np.ndarray, second: np.ndarray) -> float:
    """Jensen-Shannon divergence in bits of laws float64[K] (Lin 1991), in [0, 1]."""
    middle = (np.asarray(first) + np.asarray(second)) / 2
    return max(0.0, float(rel_entr(first, middle).sum() + rel_entr(second, middle).sum()) / 2) / math.log(2)


def agreement(law: Mapping[str, float], labels: Sequence[str]) -> np.ndarray:
    """MEASURES of answers, by class, against the law of the people asked, in their order."""
    counts, people = class_counts(labels, law)
    answers = counts / counts.sum()
    names = list(dict.fromkeys((*law, *labels)))
    return np.array(
        [
            total_variation(answers, people),
            jensen_shannon(answers, people),
            people[counts > 0].sum(),
            answers[names.index(OTHER)] if OTHER in names else 0.0,
            float(names[int(answers.argmax())] == names[int(people.argmax())]),
        ]
    )


def question_row(
    splits: Sequence[PeopleSplit], spellings: Sequence[str | None], rng: np.random.Generator
) -> dict[str, Any]:
    """A model's agreement with people on one question, beside that of held-out people; means over splits.

    Of more answers than held-out people as many are drawn for each split.

    Returns:
        MEASURES, people_MEASURE, band (the 95% quantile of held-out people's total variation) and within_band.
    """
    own, people = [], []
    for split in splits:
        (held_out,) = split.held_out
        chosen = rng.choice(len(spellings), min(len(held_out), len(spellings)), replace=False)
        own.append(agreement(split.law, split.classes([spellings[place] for place in chosen])))
        people.append(agreement(split.law, split.classes(held_out)))
    means, floors = np.mean(own, axis=0), np.mean(people, axis=0)
    band = upper_band([row[0] for row in people])
    return {
        **dict(zip(MEASURES, means.tolist(), strict=True)),
        **{f"people_{name}": value for name, value in zip(MEASURES, floors.tolist(), strict=True)},
        "band": band,
        "within_band": float(means[0] <= band + 1e-9),
    }
