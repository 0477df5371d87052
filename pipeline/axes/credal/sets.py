"""The set of a model's laws under several decoding settings, on one question, and whether people's law is in it."""

from collections.abc import Sequence

import numpy as np

from pipeline.axes.credal.hull import diameter, entropy_bounds, entropy_split, hull_distance
from pipeline.axes.questions.people import PeopleSplit, upper_band
from pipeline.core.statistics.summarise import mean_of

SPLITS = 20
"""Splits of people behind a distance and its band."""
WITHIN = ("lower_entropy_nats", "upper_entropy_nats", "within_entropy_nats", "between_entropy_nats", "diameter")
STATISTICS = {f"credal_{name}": mean_of(name) for name in ("distance", "covered", *WITHIN)}
FLOORS = {"credal_distance": "people_distance", "credal_covered": 0.95}


def laws_of(members: Sequence[Sequence[str]], others: Sequence[str] = ()) -> np.ndarray:
    """Laws float64[S, K] of lists of classes, over the classes of all of them and ``others``, in that order."""
    names = {name: place for place, name in enumerate(dict.fromkeys((*others, *(x for own in members for x in own))))}
    counts = [np.bincount([names[label] for label in own], minlength=len(names)) for own in members]
    return np.array([own / own.sum() for own in counts])


def set_row(labels: Sequence[Sequence[str]]) -> dict[str, float]:
    """WITHIN of the class of each answer of every member."""
    laws = laws_of(labels)
    return {**entropy_bounds(laws), **entropy_split(laws), "diameter": diameter(laws)}


def coverage_row(
    splits: Sequence[PeopleSplit], members: Sequence[Sequence[str | None]], rng: np.random.Generator
) -> dict[str, float]:
    """How far people's law is from the set, and from that of as many held-out samples of people; means over splits."""
    distances = []
    for split in splits:
        size = len(split.held_out[0])
        chosen = [[own[place] for place in rng.choice(len(own), min(len(own), size), replace=False)] for own in members]
        for sources in (chosen, split.held_out):
            found = laws_of([split.classes(own) for own in sources], list(split.law))
            people = np.pad(list(split.law.values()), (0, found.shape[1] - len(split.law)))
            distances.append(hull_distance(found, people))
    distances = np.reshape(distances, (-1, 2))
    distance, of_people = distances.mean(axis=0).tolist()
    band = upper_band(distances[:, 1])
    covered = float(distance <= band + 1e-9)
    return {"distance": distance, "people_distance": of_people, "band": band, "covered": covered}
