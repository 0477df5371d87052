"""Credal sets: the mixtures of a model's laws over answers to one question, and whether people's law is among them.

The members p_1, ..., p_S are laws over the same K classes: of decoding settings, wordings, conditions or seeds.
The set is their convex hull. Quantities are named by what they measure (arXiv:2505.22655).
"""

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linprog, minimize
from scipy.special import entr, softmax

from pipeline.axes.questions.people import PeopleSplit, total_variation, upper_band
from pipeline.core.statistics.summarise import mean_of

SPLITS = 20
"""Splits of people behind a distance and its band."""
WITHIN = ("lower_entropy_nats", "upper_entropy_nats", "within_entropy_nats", "between_entropy_nats", "diameter")
STATISTICS = {f"credal_{name}": mean_of(name) for name in ("distance", "covered", *WITHIN)}
FLOORS = {"credal_distance": "people_distance", "credal_covered": 0.95}


def entropy(laws: np.ndarray) -> np.ndarray:
    """Entropy in nats, float64[...], of laws float64[..., K]."""
    return entr(np.asarray(laws, dtype=np.float64)).sum(axis=-1)


def hull_distance(members: np.ndarray, law: np.ndarray) -> float:
    """Total variation of a law float64[K] from the nearest mixture of members float64[S, K].

    min over weights w of 1/2 || members' w - law ||_1 as a linear programme: K slacks s with -s <= members' w - law <=
    s.
    """
    size, classes = members.shape
    slack = np.eye(classes)
    found = linprog(
        np.concatenate([np.zeros(size), np.full(classes, 0.5)]),
        A_ub=np.block([[members.T, -slack], [-members.T, -slack]]),
        b_ub=np.concatenate([law, -law]),
        A_eq=np.concatenate([np.ones(size), np.zeros(classes)])[None],
        b_eq=[1.0],
    )
    if found.fun is None:
        raise ValueError(f"the linear programme of the hull's distance has no solution: {found.message}")
    return float(found.fun)


def upper_entropy(members: np.ndarray) -> float:
    """Largest entropy of a mixture of members float64[S, K], nats; it is concave in the mixture's weights."""
    found = minimize(
        lambda logits: -entropy(softmax(logits) @ members), np.zeros(len(members)), tol=1e-12, options={"maxiter": 500}
    )
    # No less than a vertex, which finite logits only come near to.
    return max(-float(found.fun), float(entropy(members).max()))


def entropy_split(members: np.ndarray) -> dict[str, float]:
    """Entropy of the even mixture of members float64[S, K] within and between them, in nats."""
    total, within = float(entropy(np.mean(members, axis=0))), float(entropy(members).mean())
    return {"within_entropy_nats": within, "between_entropy_nats": max(0.0, total - within)}


def entropy_bounds(members: np.ndarray) -> dict[str, float]:
    """Least and largest entropy over the set of members float64[S, K], in nats; the least is a member's."""
    return {"lower_entropy_nats": float(entropy(members).min()), "upper_entropy_nats": upper_entropy(members)}


def diameter(members: np.ndarray) -> float:
    """Largest total variation between two members float64[S, K]; a hull's is between vertices."""
    return float(total_variation(members[:, None], members[None]).max())


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
