"""The set of a model's laws under several decoding settings, on one question, and whether people's law is in it."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from pipeline.axes.credal.hull import diameter, entropy_bounds, entropy_split, hull_distances
from pipeline.axes.questions.people import PeopleSplit, upper_band
from pipeline.core.statistics.summarise import Statistic, mean_of

SPLITS = 40
"""Splits of people behind a distance and its band; shufflings behind the floors of the entropy between members."""
WITHIN = ("lower_entropy_nats", "upper_entropy_nats", "within_entropy_nats", "between_entropy_nats", "diameter")
STATISTICS: Mapping[str, Statistic] = {f"credal_{name}": mean_of(name) for name in ("distance", "covered", *WITHIN)}
FLOORS = {
    "credal_distance": "people_distance",
    "credal_covered": 0.95,
    "credal_between_entropy_nats": "between_by_chance",
    "credal_diameter": "diameter_by_chance",
}


def laws_of(members: Sequence[Sequence[str]], others: Sequence[str] = ()) -> np.ndarray:
    """Laws float64[S, K] of lists of classes, over the classes of all of them and ``others``, in that order."""
    names = {name: place for place, name in enumerate(dict.fromkeys((*others, *(x for own in members for x in own))))}
    counts = [np.bincount([names[label] for label in own], minlength=len(names)) for own in members]
    return np.array([own / own.sum() for own in counts])


def set_row(labels: Sequence[Sequence[str]], rng: np.random.Generator) -> dict[str, float]:
    """The set by itself: entropies, diameter, and what members that answer by one law would be apart.

    Args:
        labels: Class of each answer of every member.
        rng: Of the shufflings of answers among members.

    Returns:
        WITHIN, between_by_chance and diameter_by_chance.
    """
    laws = laws_of(labels)
    pooled, ends = [label for own in labels for label in own], np.cumsum([len(own) for own in labels])[:-1]
    chance = []
    for _ in range(SPLITS):
        shuffled = laws_of(np.split(rng.permutation(np.array(pooled, dtype=object)), ends))
        chance.append((entropy_split(shuffled)["between_entropy_nats"], diameter(shuffled)))
    between, widest = np.mean(chance, axis=0).tolist()
    return {
        **entropy_bounds(laws),
        **entropy_split(laws),
        "diameter": diameter(laws),
        "between_by_chance": between,
        "diameter_by_chance": widest,
    }


def coverage_row(
    splits: Sequence[PeopleSplit], members: Sequence[Sequence[str | None]], rng: np.random.Generator
) -> dict[str, float]:
    """How far people's law is from the set, and from the set of as many held-out samples of people.

    Args:
        splits: Of the people, with a held-out sample for each member.
        members: Spellings of the answers of every member; of more than a held-out sample as many are drawn.
        rng: Of these draws.

    Returns:
        distance and people_distance (means over splits), band (95% quantile of the latter's) and covered.
    """
    sets, laws = [], []
    for split in splits:
        size = len(split.held_out[0])
        chosen = [[own[place] for place in _some(len(own), size, rng)] for own in members]
        for sources in (chosen, split.held_out):
            found = laws_of([split.classes(own) for own in sources], list(split.law))
            sets.append(found)
            laws.append(np.pad(list(split.law.values()), (0, found.shape[1] - len(split.law))))
    distances = np.array([distance for distance, _ in hull_distances(sets, laws)]).reshape(-1, 2)
    distance, people = distances.mean(axis=0).tolist()
    band = upper_band(distances[:, 1])
    covered = float(distance <= band + 1e-9)
    return {"distance": distance, "people_distance": people, "band": band, "covered": covered}


def _some(number: int, size: int, rng: np.random.Generator) -> np.ndarray:
    return rng.choice(number, min(number, size), replace=False)


NO_PEOPLE = dict.fromkeys(("distance", "people_distance", "band", "covered"), math.nan)
"""``coverage_row`` of a question that people were not asked."""
