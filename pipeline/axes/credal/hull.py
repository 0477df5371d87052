"""Credal sets: the mixtures of a model's laws over answers, against people's law.

The members p_1, ..., p_S are laws over the same K classes: of decoding settings, wordings, conditions or seeds.
The set is their convex hull. Quantities are named by what they measure (arXiv:2505.22655).
"""

from collections.abc import Sequence

import numpy as np
from scipy.optimize import LinearConstraint, linprog, minimize
from scipy.sparse import block_diag, csr_array
from scipy.special import entr

from pipeline.axes.questions.distances import total_variation

TOGETHER = 50
"""Linear programmes that are solved as one."""


def entropy(laws: np.ndarray) -> np.ndarray:
    """Entropy in nats, float64[...], of laws float64[..., K]."""
    return entr(np.asarray(laws, dtype=np.float64)).sum(axis=-1)


def hull_distances(members: Sequence[np.ndarray], laws: Sequence[np.ndarray]) -> list[tuple[float, np.ndarray]]:
    """Total variation of each law from the nearest mixture of its members, and the mixture's weights.

    min over weights w of 1/2 || members' w - law ||_1 as a linear programme: K slacks s with
    -s <= members' w - law <= s. Fifty are solved as one whose constraints are block-diagonal, because most of a small
    one's time is the solver's start.

    Args:
        members: float64[S, K] for each question.
        laws: float64[K] for each question.

    Returns:
        Distance in [0, 1] and float64[S] weights for each question.
    """
    found = []
    for start in range(0, len(laws), TOGETHER):
        found += _solved_together(members[start : start + TOGETHER], laws[start : start + TOGETHER])
    return found


def _solved_together(members: Sequence[np.ndarray], laws: Sequence[np.ndarray]) -> list[tuple[float, np.ndarray]]:
    above, sums, costs, bounds = [], [], [], []
    for own, law in zip(members, laws, strict=True):
        size, classes = own.shape
        slack = np.eye(classes)
        above.append(np.block([[own.T, -slack], [-own.T, -slack]]))
        sums.append(np.concatenate([np.ones(size), np.zeros(classes)])[None])
        costs.append(np.concatenate([np.zeros(size), np.full(classes, 0.5)]))
        bounds.append(np.concatenate([law, -law]))
    found = linprog(
        np.concatenate(costs),
        A_ub=csr_array(block_diag(above)),
        b_ub=np.concatenate(bounds),
        A_eq=csr_array(block_diag(sums)),
        b_eq=np.ones(len(laws)),
        method="highs",
    )
    if found.x is None:
        raise ValueError(f"the linear programme of the hull distances has no solution: {found.message}")
    results, start = [], 0
    for own in members:
        size, classes = own.shape
        part = found.x[start : start + size + classes]
        start += size + classes
        results.append((float(part[size:].sum() / 2), part[:size]))
    return results


def upper_entropy(members: np.ndarray) -> float:
    """Largest entropy of a mixture of members float64[S, K], nats: a concave function over weights on a simplex."""
    members = np.asarray(members, dtype=np.float64)
    members = members[:, members.sum(axis=0) > 0]
    count = len(members)
    highest = float(entropy(members).max())
    if count == 1 or members.shape[1] == 1:
        return highest

    def negative(weights: np.ndarray) -> float:
        return -float(entropy(np.maximum(weights, 0) @ members))

    def gradient(weights: np.ndarray) -> np.ndarray:
        return members @ (np.log(np.maximum(weights @ members, 1e-300)) + 1)

    found = minimize(
        negative,
        np.full(count, 1 / count),
        jac=gradient,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * count,
        constraints=LinearConstraint(np.ones(count), 1.0, 1.0),
        options={"ftol": 1e-12, "maxiter": 500},
    )
    weights = np.maximum(found.x, 0)
    # No less than its vertices and their mean, whatever the solver makes of a flat top.
    return max(highest, float(entropy(weights / weights.sum() @ members)), float(entropy(members.mean(axis=0))))


def entropy_split(members: np.ndarray) -> dict[str, float]:
    """Entropy of the even mixture of members float64[S, K] within and between them, in nats.

    The part between is their Jensen-Shannon divergence; the two add up to the mixture's entropy.

    Returns:
        within_entropy_nats, between_entropy_nats.
    """
    total, within = float(entropy(np.mean(members, axis=0))), float(entropy(members).mean())
    return {"within_entropy_nats": within, "between_entropy_nats": max(0.0, total - within)}


def entropy_bounds(members: np.ndarray) -> dict[str, float]:
    """Least and largest entropy over the set of members float64[S, K], in nats.

    Entropy is concave: the least is a member's.

    Returns:
        lower_entropy_nats, upper_entropy_nats.
    """
    return {"lower_entropy_nats": float(entropy(members).min()), "upper_entropy_nats": upper_entropy(members)}


def diameter(members: np.ndarray) -> float:
    """Largest total variation between two members float64[S, K]; a hull's is between vertices."""
    return float(total_variation(members[:, None], members[None]).max())


def expected_information_gain(laws: np.ndarray) -> float:
    """What an answer to a question says of which hypothesis is true, in nats (BED-LLM, arXiv:2508.21184).

    H(mean law) less the mean of H, under equally likely hypotheses. The same formula as the entropy between members,
    of other things: there members are a model's laws, here they are hypotheses about the world.

    Args:
        laws: float64[S, K], the law of the answer under each hypothesis.
    """
    return entropy_split(laws)["between_entropy_nats"]
