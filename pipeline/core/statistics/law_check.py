"""Do samples follow a known law? Pearson's chi-square test over cells that are large enough for it."""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

from scipy.stats import binom, chi2

# Cochran's rule: in cells with fewer expected samples X^2 is far from its chi-square law.
MINIMUM_EXPECTED = 5.0
# Rare outcomes are put together in cells of at least so many.
GROUP_EXPECTED = 25.0
# Expected samples that are there by rounding alone.
IMPOSSIBLE = 1e-9


@dataclass(frozen=True)
class LawTest:
    """Result of ``compare_with_law``.

    Attributes:
        statistic: Pearson's X^2; NaN with a single cell.
        degrees_of_freedom: Cells minus one.
        p_value: Probability, under the law, of samples at least as far from it (an upper bound where two
            tests were made).
        num_samples: Samples counted, N.
        worst: What speaks most against the law: (outcome, observed, expected); the outcome is None for rare
            outcomes together.
    """

    statistic: float
    degrees_of_freedom: int
    p_value: float
    num_samples: int
    worst: tuple[Hashable | None, int, float]


def cells_of(law: Mapping[Hashable, float], num_samples: int) -> tuple[list[list[Hashable]], float]:
    """Cells of Pearson's test: outcomes that are common enough one by one, rarer ones in groups of like probability.

    Sampling that leaves out rare outcomes (top-k, top-p) empties the last groups, which one cell for all
    that is rare would hide.

    Args:
        law: Probability by outcome; what is missing to 1 belongs to outcomes that are not listed.
        num_samples: N of the test.

    Returns:
        Outcomes of each cell, most probable first: at least ``MINIMUM_EXPECTED`` expected samples for one outcome,
        ``GROUP_EXPECTED`` for a group. And the probability of all other outcomes, unlisted ones among them.

    Raises:
        ValueError: A probability is negative, or their sum is above 1 by more than rounding.
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


def compare_with_law(counts: Mapping[Hashable, int], law: Mapping[Hashable, float]) -> LawTest:
    """Test observed outcomes against a law that was known before they were seen.

    Pearson's test over ``cells_of`` and one cell for all other outcomes. Where fewer than ``MINIMUM_EXPECTED`` others
    are expected, they join the last cell, and their own number is tested by its binomial law (too many,
    one-sided): impossible outcomes must not hide in a large cell. The p-value is then twice the smaller one
    (Bonferroni).

    Args:
        counts: How often each outcome came up, at least one sample in all. Outcomes that the law
            does not list are counted with the others.
        law: As in ``cells_of``.

    Raises:
        ValueError: There are no samples, or the law is none (see ``cells_of``).
    """
    num_samples = sum(counts.values())
    if not num_samples:
        raise ValueError("there are no samples to test")
    groups, rest = cells_of(law, num_samples)
    cells = [
        (
            group[0] if len(group) == 1 else None,
            sum(counts.get(outcome, 0) for outcome in group),
            math.fsum(law[outcome] for outcome in group) * num_samples,
        )
        for group in groups
    ]
    others = (None, num_samples - sum(observed for _, observed, _ in cells), rest * num_samples)
    if others[2] >= MINIMUM_EXPECTED or not cells:
        return _pearson([*cells, others], num_samples)
    too_many = float(binom.sf(others[1] - 1, num_samples, rest))
    name, observed, expected = cells[-1]
    pearson = _pearson([*cells[:-1], (name, observed + others[1], expected + others[2])], num_samples)
    # Others that cannot be are no second chance to refuse a sound sample.
    num_tests = 2 if others[2] > IMPOSSIBLE else 1
    p_value = min(num_tests * min(too_many, pearson.p_value), 1.0)
    return replace(pearson, p_value=p_value, worst=others if too_many < pearson.p_value else pearson.worst)


def _pearson(cells: list[tuple[Hashable | None, int, float]], num_samples: int) -> LawTest:
    """Pearson's test of (outcome, observed, expected) cells; a single one always agrees."""
    terms = [(observed - expected) ** 2 / expected for _, observed, expected in cells]
    worst = cells[max(range(len(cells)), key=terms.__getitem__)]
    if len(cells) == 1:
        return LawTest(math.nan, 0, 1.0, num_samples, worst)
    statistic, freedom = math.fsum(terms), len(cells) - 1
    return LawTest(statistic, freedom, float(chi2.sf(statistic, freedom)), num_samples, worst)
