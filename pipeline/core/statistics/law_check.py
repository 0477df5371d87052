"""Do samples follow a known law? Pearson's chi-square test over cells that are large enough for it; total variation."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom, chi2, ncx2

# Cochran's rule: in cells with fewer expected samples X^2 is far from its chi-square law.
MINIMUM_EXPECTED = 5.0
# Rare outcomes are put together in cells of at least so many.
GROUP_EXPECTED = 25.0
# Expected samples that are there by rounding alone.
IMPOSSIBLE = 1e-9


@dataclass(frozen=True)
class LawTest:
    """Pearson's X^2 (NaN with a single cell), its degrees of freedom, the p-value (an upper bound where two tests were
    made), and what speaks most against the law: (outcome, observed, expected), the outcome None for rare ones together.
    """

    statistic: float
    degrees_of_freedom: int
    p_value: float
    num_samples: int
    worst: tuple[Hashable | None, int, float]


def cells_of(law: Mapping[Hashable, float], num_samples: int) -> tuple[list[list[Hashable]], float]:
    """The outcomes of each cell, most probable first, and the probability of all others, unlisted ones among them.

    An outcome with at least MINIMUM_EXPECTED expected samples is a cell; rarer ones are grouped by like probability, at
    least GROUP_EXPECTED together: sampling that leaves out rare outcomes (top-k, top-p) empties the last groups, which
    one cell for all that is rare would hide. Raises ValueError for probabilities that are none.
    """
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
    return cells, max(1 - math.fsum(law[outcome] for cell in cells for outcome in cell), 0.0)


def _upper_tail(statistics: np.ndarray, freedom: int, noncentrality: float) -> np.ndarray:
    """P-values of (noncentral) chi-square statistics; 1 without degrees of freedom, as a single cell always agrees."""
    if not freedom:
        return np.ones_like(statistics)
    return ncx2.sf(statistics, freedom, noncentrality) if noncentrality else chi2.sf(statistics, freedom)


class LawCells:
    """The cells of a test of N samples against a law that was known before they were seen.

    ``cells_of`` and one cell for all other outcomes. Where fewer than MINIMUM_EXPECTED others are expected, they join
    the last cell, and their own number is tested by its binomial law (too many, one-sided): impossible outcomes must
    not hide in a large cell. The p-value is then twice the smaller one (Bonferroni). ``probabilities`` are
    float64[C + 1]; the last is that of all other outcomes.
    """

    def __init__(self, law: Mapping[Hashable, float], num_samples: int) -> None:
        """Raises ValueError as ``cells_of``, or where N is 0."""
        if not num_samples:
            raise ValueError("there are no samples to test")
        cells, others = cells_of(law, num_samples)
        self._cell = {outcome: index for index, cell in enumerate(cells) for outcome in cell}
        self._names = [*(cell[0] if len(cell) == 1 else None for cell in cells), None]
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

    def test(self, counts: Mapping[Hashable, int], relative_error: float = 0.0) -> LawTest:
        """The test of N samples, counted by outcome; ``relative_error`` as in ``p_values``."""
        observed = self.masses(counts)
        statistics, p_values = self.statistics(observed[None]), self.p_values(observed[None], relative_error)
        joined, expected = self._joined(observed), self._joined(self.probabilities * self.num_samples)
        index = int(((joined - expected) ** 2 / expected).argmax())
        worst = (self._names[index], int(joined[index]), float(expected[index]))
        if self._joins and self._too_many(observed[None]) < self._pearson(statistics, relative_error):
            worst = (None, int(observed[-1]), float(self.probabilities[-1] * self.num_samples))
        statistic = float(statistics[0]) if self.degrees_of_freedom else math.nan
        return LawTest(statistic, self.degrees_of_freedom, float(p_values[0]), self.num_samples, worst)

    def p_values(self, observed: np.ndarray, relative_error: float = 0.0) -> np.ndarray:
        """P-values, float64[D], of int64[D, C + 1] samples in each cell.

        ``relative_error`` is the root mean square of what the sampled probabilities may differ by, as a share of each:
        the statistic is then noncentral chi-square, with noncentrality N * relative_error^2.
        """
        pearson = self._pearson(self.statistics(observed), relative_error)
        if not self._joins:
            return pearson
        # Others that cannot be are no second chance to refuse a sound sample.
        num_tests = 2 if self.probabilities[-1] * self.num_samples > IMPOSSIBLE else 1
        return np.minimum(num_tests * np.minimum(pearson, self._too_many(observed)), 1.0)

    def statistics(self, observed: np.ndarray) -> np.ndarray:
        """Pearson's X^2, float64[D], of int64[D, C + 1] samples in each cell; 0 with a single cell."""
        expected = self._joined(self.probabilities * self.num_samples)
        return ((self._joined(observed) - expected) ** 2 / expected).sum(axis=-1)

    def draw(self, sampled: np.ndarray, num_draws: int, rng: np.random.Generator) -> np.ndarray:
        """int64[D, C + 1] of D times N samples of a law with the ``masses`` given; the last cell gets the rest."""
        shares = np.maximum(sampled, 0)
        shares[-1] = max(1 - math.fsum(shares[:-1]), 0.0)
        return rng.multinomial(self.num_samples, shares / shares.sum(), size=num_draws)

    def _joined(self, values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(values, range(len(self._names) - 1), axis=-1) if self._joins else values

    def _pearson(self, statistics: np.ndarray, relative_error: float) -> np.ndarray:
        return _upper_tail(statistics, self.degrees_of_freedom, self.num_samples * relative_error**2)

    def _too_many(self, observed: np.ndarray) -> np.ndarray:
        return binom.sf(observed[:, -1] - 1, self.num_samples, self.probabilities[-1])


def pooled_p_values(cells: Sequence[LawCells], statistics: np.ndarray, relative_error: float = 0.0) -> np.ndarray:
    """P-values float64[D] of several tests' statistics, float64[T, D], together: their sum is chi-square, too.

    A small fault of every law, such as a cut of what is rare, shows in the sum before it shows in one of them.
    """
    tested = [test for test in cells if test.degrees_of_freedom]
    noncentrality = sum(test.num_samples for test in tested) * relative_error**2
    return _upper_tail(statistics.sum(axis=0), sum(test.degrees_of_freedom for test in tested), noncentrality)


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
    """How total variation varies when int[K] answers are drawn anew, float64[replicates]; 0 without answers.

    Centred, because redrawing adds the sampling error a second time (as ``half_sample_deviations``).
    """
    if not counts.sum():
        return np.zeros(replicates)
    draws = total_variations(rng.multinomial(counts.sum(), counts / counts.sum(), size=replicates), law)
    return draws - draws.mean()
