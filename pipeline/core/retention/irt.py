"""Performance on a whole benchmark from 100 of its items by item response theory.

Polo et al. (2024), arXiv:2402.14992. An item i of a scenario is answered correctly with probability P_i(theta) =
sigmoid(sum_d (a_id theta_d - b_id)). The ability theta is the maximum likelihood estimate on the seen items; with the
seen correctness y, balance weights w, which give every sub-scenario the same say, and weights v of the seen items as
representatives of clusters of all items,

    IRT    = sum_seen v_i y_i
    p-IRT  = n/N mean_seen w_i y_i + (1 - n/N) mean_unseen w_i P_i(theta)
    gp-IRT = lambda IRT + (1 - lambda) p-IRT

Correctness in [0, 1], such as mc2, enters the means and the likelihood as it is, as in the tinyBenchmarks package.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit

SCENARIOS = {
    "tinyMMLU": "mmlu",
    "tinyHellaswag": "hellaswag",
    "tinyTruthfulQA": "truthfulqa",
    "tinyWinogrande": "winogrande",
    "tinyGSM8k": "gsm8k",
}
"""The scenario whose performance each tiny task estimates."""

GRADIENT_TOLERANCE = 1e-5
"""Where fitting stops, nats per unit of ability: BFGS's default. Answers that are all right have no finite maximum."""
PREDICTIONS_PER_CHUNK = 2_000_000


@dataclass(frozen=True)
class IrtScenario:
    """Item parameters of one scenario with N items, n of them seen.

    Attributes:
        discriminations: float64[D, N], a.
        offsets: float64[N], b summed over the D dimensions.
        seen: int64[n], positions of the tiny task's items in 0..N-1, in the task's order.
        seen_weights: float64[n], v; they sum to about 1.
        balance_weights: float64[N], w, with mean 1.
        mixing_weight: lambda in [0, 1].
    """

    discriminations: np.ndarray
    offsets: np.ndarray
    seen: np.ndarray
    seen_weights: np.ndarray
    balance_weights: np.ndarray
    mixing_weight: float

    def __post_init__(self):
        num_items, num_seen = len(self.offsets), len(self.seen)
        positions = np.unique(self.seen)
        values = (self.discriminations, self.offsets, self.seen_weights, self.balance_weights)
        if self.discriminations.ndim != 2 or self.discriminations.shape[1] != num_items:
            raise ValueError(f"discriminations have shape {self.discriminations.shape}, not [dimensions, {num_items}]")
        if self.balance_weights.shape != (num_items,) or self.seen_weights.shape != (num_seen,):
            raise ValueError(f"weights do not have one entry for each of {num_items} items and {num_seen} seen items")
        if num_seen == 0 or len(positions) != num_seen or positions[0] < 0 or positions[-1] >= num_items:
            raise ValueError(f"seen items must be different positions in 0..{num_items - 1}")
        if not all(np.isfinite(value).all() for value in values) or (self.seen_weights < 0).any():
            raise ValueError("item parameters and weights must be finite, and weights of seen items at least 0")
        if not 0 <= self.mixing_weight <= 1:
            raise ValueError(f"the mixing weight is {self.mixing_weight}, not in [0, 1]")


def balance_weights(subscenarios: list[np.ndarray], num_items: int) -> np.ndarray:
    """float64[N], N / (S n_s) for the n_s items (int64[n_s] positions in 0..N-1) of each of S sub-scenarios. Raises
    ValueError unless each item is in one."""
    if sorted(position for members in subscenarios for position in members.tolist()) != list(range(num_items)):
        raise ValueError(f"sub-scenarios must cover each of {num_items} items once")
    weights = np.empty(num_items)
    for members in subscenarios:
        weights[members] = num_items / (len(subscenarios) * len(members))
    return weights


def fit_ability(values: np.ndarray, discriminations: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """float64[D] maximum likelihood ability of float64[n] correctness in [0, 1], by BFGS from 0 as in the package."""

    def loss(ability: np.ndarray) -> tuple[float, np.ndarray]:
        logits = ability @ discriminations - offsets
        likelihood = values @ log_expit(logits) + (1 - values) @ log_expit(-logits)
        return -likelihood, discriminations @ (expit(logits) - values)

    start = np.zeros(len(discriminations))
    return minimize(loss, start, jac=True, method="BFGS", options={"gtol": GRADIENT_TOLERANCE}).x


def fit_abilities(
    values: np.ndarray, counts: np.ndarray, discriminations: np.ndarray, offsets: np.ndarray, start: np.ndarray
) -> np.ndarray:
    """float64[R, D] maximum likelihood abilities by damped Newton steps from float64[D], of R resamples that hold each
    item ``counts``, float64[R, n], times."""
    dimensions = len(discriminations)
    products = np.einsum("dn,en->nde", discriminations, discriminations).reshape(len(values), -1)

    def likelihoods(abilities: np.ndarray, rows: np.ndarray) -> np.ndarray:
        logits = abilities @ discriminations - offsets
        return (counts[rows] * (values * log_expit(logits) + (1 - values) * log_expit(-logits))).sum(axis=1)

    abilities = np.tile(start, (len(counts), 1))
    rows = np.arange(len(counts))
    for _ in range(200):
        chances = expit(abilities[rows] @ discriminations - offsets)
        gradients = (counts[rows] * (values - chances)) @ discriminations.T
        moving = np.abs(gradients).max(axis=1) > GRADIENT_TOLERANCE
        rows, gradients, chances = rows[moving], gradients[moving], chances[moving]
        if len(rows) == 0:
            break
        curvatures = ((counts[rows] * chances * (1 - chances)) @ products).reshape(-1, dimensions, dimensions)
        # A resample may leave a direction of ability without information.
        steps = np.linalg.solve(curvatures + 1e-6 * np.eye(dimensions), gradients[..., None])[..., 0]
        before, scale = likelihoods(abilities[rows], rows), np.ones((len(rows), 1))
        for _ in range(30):
            worse = likelihoods(abilities[rows] + scale * steps, rows) < before - 1e-12 * np.abs(before)
            if not worse.any():
                break
            scale[worse] /= 2
        abilities[rows] += scale * steps
    return abilities


def estimate_performance(scenario: IrtScenario, values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """gp-IRT, float64[R], of float64[n] correctness of the seen items in their order, on resamples that hold each of
    them so often, float64[R, n] ``counts``."""
    seen, weights, num_items = scenario.seen, scenario.seen_weights, len(scenario.offsets)
    a, b = scenario.discriminations[:, seen], scenario.offsets[seen]
    abilities = fit_abilities(values, counts, a, b, fit_ability(values, a, b))
    irt = (counts @ (weights * values)) / (counts @ weights) * weights.sum()
    share = len(seen) / num_items
    p_irt = share * (counts @ (scenario.balance_weights[seen] * values) / len(seen))
    unseen = np.setdiff1d(np.arange(num_items), seen)
    if len(unseen):
        a, b, weights = scenario.discriminations[:, unseen], scenario.offsets[unseen], scenario.balance_weights[unseen]
        size = max(1, PREDICTIONS_PER_CHUNK // len(unseen))
        chunks = [abilities[i : i + size] for i in range(0, len(abilities), size)]
        predicted = np.concatenate([expit(chunk @ a - b) @ weights for chunk in chunks]) / len(unseen)
        p_irt = p_irt + (1 - share) * predicted
    return scenario.mixing_weight * irt + (1 - scenario.mixing_weight) * p_irt
