"""Do samples follow a known law? Pearson's chi-square test over cells that are large enough for it; total variation."""

import math
from collections.abc import Hashable, Mapping

import numpy as np
from scipy.stats import binom, chi2, ncx2

# Cochran's rule: in cells with fewer expected samples X^2 is far from its chi-square law.
MINIMUM_EXPECTED = 5.0
# Rare outcomes are put together in cells of at least so many.
GROUP_EXPECTED = 25.0
# Expected samples that are there by rounding alone.
IMPOSSIBLE = 1e-9


def upper_tail(statistic: float, freedom: int, noncentrality: float = 0.0) -> float:
    """P-value of a (noncentral) chi-square statistic; 1 without degrees of freedom, as a single cell always agrees."""
    if not freedom:
        return 1.0
    return float(ncx2.sf(statistic, freedom, noncentrality) if noncentrality else chi2.sf(statistic, freedom))


class LawCells:
    """The cells of a test of N samples against a law that was known before they were seen.

    An outcome with at least MINIMUM_EXPECTED expected samples is a cell. Rarer ones are grouped by like probability, at
    least GROUP_EXPECTED together: sampling that leaves out rare outcomes (top-k, top-p) empties the last groups, which
    one cell for all that is rare would hide. All other outcomes, unlisted ones among them, are the last cell.

    Where fewer than MINIMUM_EXPECTED others are expected, they join the cell before, and their own number is tested by
    its binomial law (too many, one-sided): impossible outcomes must not hide in a large cell. The p-value is then twice
    the smaller one (Bonferroni). ``probabilities`` are float64[C + 1]; the last is that of all other outcomes.
    """

    def __init__(self, law: Mapping[Hashable, float], num_samples: int) -> None:
        """Raises ValueError for probabilities that are none, or where N is 0."""
        if not num_samples:
            raise ValueError("there are no samples to test")
        if any(probability < 0 for probability in law.values()) or math.fsum(law.values()) > 1 + 1e-6:
            raise ValueError("law must hold probabilities whose sum is at most 1")
        cells: list[list[Hashable]] = []
        group, mass = [], 0.0
        # Sorted by name, too, so that ties do not depend on the order of the law.
        for outcome, probability in sorted(law.items(), key=lambda item: (-item[1], str(item[0]))):
            if probability * num_samples >= MINIMUM_EXPECTED:
                cells.append([outcome])
                continue
            group.append(outcome)
            mass += probability
            if mass * num_samples >= GROUP_EXPECTED:
                cells.append(group)
                group, mass = [], 0.0
        others = max(1 - math.fsum(law[outcome] for cell in cells for outcome in cell), 0.0)
        self._cell = {outcome: index for index, cell in enumerate(cells) for outcome in cell}
        self.num_samples = num_samples
        self.probabilities = np.array([*(math.fsum(law[outcome] for outcome in cell) for cell in cells), others])
        self._joins = bool(cells) and others * num_samples < MINIMUM_EXPECTED
        self.degrees_of_freedom = len(cells) - self._joins

    def masses(self, weights: Mapping[Hashable, float]) -> np.ndarray:
        """float64[C + 1]: what the cells have of ``weights`` by outcome (counts, or another law's probabilities)."""
        masses = np.zeros(len(self.probabilities))
        for outcome, weight in weights.items():
            masses[self._cell.get(outcome, -1)] += weight
        return masses

    def statistic(self, counts: Mapping[Hashable, float]) -> float:
        """Pearson's X^2 of counts by outcome; 0 with a single cell. Of N times another law it is the noncentrality."""
        observed, expected = self._joined(self.masses(counts)), self._joined(self.probabilities * self.num_samples)
        return float(((observed - expected) ** 2 / expected).sum())

    def p_value(self, counts: Mapping[Hashable, int], relative_error: float = 0.0) -> float:
        """The p-value of N samples, counted by outcome. ``relative_error`` is the root mean square of what the
        probabilities may differ by, a share of each: chi-square is then noncentral, N * relative_error^2."""
        pearson = upper_tail(self.statistic(counts), self.degrees_of_freedom, self.num_samples * relative_error**2)
        if not self._joins:
            return pearson
        others = self.probabilities[-1]
        # Others that cannot be are no second chance to refuse a sound sample.
        num_tests = 2 if others * self.num_samples > IMPOSSIBLE else 1
        too_many = binom.sf(self.masses(counts)[-1] - 1, self.num_samples, others)
        return min(num_tests * min(pearson, float(too_many)), 1.0)

    def _joined(self, values: np.ndarray) -> np.ndarray:
        return np.append(values[:-2], values[-2] + values[-1]) if self._joins else values


def total_variations(counts: np.ndarray, law: np.ndarray) -> np.ndarray:
    """Total variation distance of frequencies from a law float64[K], float64[R] of int[R, K]; NaN without answers."""
    with np.errstate(invalid="ignore"):
        return np.abs(counts / counts.sum(axis=1, keepdims=True) - law).sum(axis=1) / 2


def total_variation_floors(law: np.ndarray, size: int, replicates: int, rng: np.random.Generator) -> np.ndarray:
    """What perfect samplers score, float64[replicates]: total variation of ``size`` draws from the law itself."""
    return total_variations(rng.multinomial(size, law, size=replicates), law)


def total_variation_deviations(
    counts: np.ndarray, law: np.ndarray, replicates: int, rng: np.random.Generator
) -> np.ndarray:
    """How total variation varies when int[K] answers are drawn anew, float64[replicates], centred (as
    ``half_sample_deviations``); 0 without answers."""
    if not counts.sum():
        return np.zeros(replicates)
    draws = total_variations(rng.multinomial(counts.sum(), counts / counts.sum(), size=replicates), law)
    return draws - draws.mean()
