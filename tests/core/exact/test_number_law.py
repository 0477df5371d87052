"""Bounds of a law over plain decimals against synthetic next-token models whose law is known."""

import itertools
import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.core.exact.number_law import CDF_POINTS, GridTarget, bound_number_law, candidate_tokens
from pipeline.core.laws.discretize import QUANTILE_RANGE
from pipeline.core.laws.family import Law
from pipeline.core.laws.quantiles import quantile
from pipeline.core.prompts.number_answers import Invalid, parse_sample
from pipeline.core.tries.digit_tokens import DigitTokens

ONE_DIGIT = DigitTokens((np.arange(10),), minus=10, point=11, terminator=12)
THREE_DIGITS = DigitTokens(
    (np.arange(10), np.arange(10, 110), np.arange(110, 1110)), minus=1110, point=1111, terminator=1112
)
OUTSIDE = 5000
LAWS = {
    "normal": Law("norm", {"loc": 0.3, "scale": 1.5}),
    "exponential": Law("expon", {"scale": 2.0}),
    "beta": Law("beta", {"a": 2.0, "b": 3.0}),
    "narrow": Law("uniform", {"loc": -20.5, "scale": 1.25}),
    "poisson": Law("poisson", {"mu": 4.0}),
    "binomial": Law("binom", {"n": 12, "p": 0.4}),
    "skellam": Law("skellam", {"mu1": 3.0, "mu2": 4.0}),
    "bernoulli": Law("bernoulli", {"p": 0.3}),
    "cauchy": Law("cauchy", {"loc": 0.0, "scale": 1.0}),
}
ODD = ["-", ".", "", "-.", "3.", ".5", "-.5", "007", "-0", "0.0", "-1.50", "12", "1.000", "99999", "2.0", "..", "4-"]


class SyntheticModel:
    """Weighted token sequences as a next-token model; a sequence ends in the terminator or outside the grammar."""

    def __init__(self, digit_tokens, sequences, weights, max_new_tokens):
        self.digit_tokens, self.max_new_tokens = digit_tokens, max_new_tokens
        self.next = defaultdict(lambda: defaultdict(float))
        for sequence, weight in zip(sequences, np.asarray(weights) / np.sum(weights), strict=True):
            for k, token in enumerate(sequence):
                self.next[tuple(sequence[:k])][token] += weight
        self.candidates = candidate_tokens(digit_tokens)
        self.column = {int(token): column for column, token in enumerate(self.candidates)}

    def score(self, paths):
        out = np.full((len(paths), len(self.candidates)), -np.inf)
        for row, path in enumerate(paths):
            assert len(path) < self.max_new_tokens
            children = self.next[path]
            total = sum(children.values())
            for token, weight in children.items():
                if token in self.column:
                    out[row, self.column[token]] = math.log(weight / total)
        return out

    def texts(self):
        """Probability of each answer text, masked to the grammar."""
        result = defaultdict(float)
        texts = self.digit_tokens.text_of
        end = self.digit_tokens.terminator

        def walk(path, text, mass):
            children = self.next[path]
            if len(path) == self.max_new_tokens or not children:
                result[text] += mass
                return
            inside = {t: w for t, w in children.items() if self.continues(text, t)}
            kept = sum(inside.values())
            if not kept:
                result[text] += mass
                return
            for token, weight in inside.items():
                share = mass * weight / kept
                if token == end:
                    result[text] += share
                else:
                    walk((*path, token), text + texts[token], share)

        walk((), "", 1.0)
        return result

    def continues(self, text, token):
        tokens = self.digit_tokens
        if token == tokens.terminator:
            return any(character.isdigit() for character in text)
        if token == tokens.minus:
            return text == ""
        if token == tokens.point:
            return "." not in text
        return token in self.column

    def law(self, law):
        """Valid values, their conditional probabilities, and the probability of a valid answer."""
        mass = defaultdict(float)
        for text, weight in self.texts().items():
            value = parse_sample(text, law.support, law.integer)
            if not isinstance(value, Invalid):
                mass[value] += weight
        values = np.array(sorted(mass))
        weights = np.array([mass[value] for value in values])
        return values, weights / weights.sum(), weights.sum()


def exact_distances(law, values, weights):
    """W1 / (Q95 - Q05) and KS on the window by dense quadrature."""
    low, high, q05, q95 = quantile(law, np.array([0.001, 0.999, 0.05, 0.95]))
    low, high = max(low, law.support[0]), min(high, law.support[1])
    cdf = law.freeze().cdf
    if law.integer:
        left = np.arange(low, high)
        start = end = cdf(left)
        lengths = np.ones(len(left))
    else:
        inner = values[(values > low) & (values < high)]
        edges = np.unique(np.concatenate([np.linspace(low, high, 200_001), inner, np.nextafter(inner, -np.inf)]))
        left, lengths = edges[:-1], np.diff(edges)
        start, end = cdf(edges[:-1]), cdf(edges[1:])
    model = np.concatenate([[0], np.cumsum(weights)])[np.searchsorted(values, left, "right")]
    distance = np.abs(model - (start + end) / 2) @ lengths
    ks = np.maximum(np.abs(model - start), np.abs(model - end)).max()
    return distance / (q95 - q05) if q95 > q05 else math.nan, ks


def grouped(digit_tokens, text, rng):
    """A random way of writing a text in digit groups."""
    by_text = {text: token for token, text in digit_tokens.text_of.items()}
    tokens = []
    while text:
        size = int(rng.integers(1, digit_tokens.max_group + 1))
        while text[:size] not in by_text:
            size -= 1
        tokens.append(by_text[text[:size]])
        text = text[size:]
    return tokens


def make_model(law, digit_tokens, rng, *, size=150, leak=0.1, max_new_tokens=12):
    draws = quantile(law, rng.uniform(0.0005, 0.9995, size=size) ** rng.uniform(0.7, 1.4))
    texts = [f"{x:.{rng.integers(0, 5)}f}" for x in draws]
    texts += ODD
    sequences = []
    for text in texts:
        sequence = grouped(digit_tokens, text, rng)
        if rng.random() < leak:
            sequence = [*sequence[: rng.integers(0, len(sequence) + 1)], OUTSIDE]
        else:
            sequence.append(digit_tokens.terminator)
        sequences.append(sequence)
    return SyntheticModel(digit_tokens, sequences, rng.dirichlet(np.full(len(texts), 0.5)) + 1e-12, max_new_tokens)


def width(bounds):
    """Of the bounds that expansion narrows: of KS where the target has no scale."""
    achieved = bounds.wasserstein_1_high - bounds.wasserstein_1_low
    return bounds.ks_high - bounds.ks_low if math.isnan(achieved) else achieved


def assert_holds(bounds, law, model):
    values, weights, support = model.law(law)
    distance, ks = exact_distances(law, values, weights)
    if not math.isnan(distance):
        assert bounds.wasserstein_1_low - 1e-4 <= distance <= bounds.wasserstein_1_high + 1e-4
    assert bounds.ks_low - 1e-6 <= ks <= bounds.ks_high + 1e-4
    assert bounds.support_low - 1e-9 <= support <= bounds.support_high + 1e-9
    x, low, high, target = bounds.distribution.values()
    exact = np.concatenate([[0], np.cumsum(weights)])[np.searchsorted(values, x, "right")]
    # Both are clipped to the window: at its upper end they are 1.
    assert (low[-1], high[-1], target[-1]) == (1, 1, 1)
    assert (low[:-1] <= exact[:-1] + 1e-9).all() and (exact[:-1] <= high[:-1] + 1e-9).all()
    assert (np.diff(low) >= 0).all() and (np.diff(high) >= 0).all() and (low <= high).all()
    np.testing.assert_allclose(target[:-1], law.freeze().cdf(x[:-1]))
    ends = np.clip(quantile(law, np.array(QUANTILE_RANGE)), *law.support)
    assert (x[0], x[-1]) == pytest.approx(tuple(ends)) and 2 <= len(x) <= CDF_POINTS


@pytest.mark.parametrize("digit_tokens", [ONE_DIGIT, THREE_DIGITS], ids=["one", "three"])
@pytest.mark.parametrize("name", LAWS)
def test_bounds_hold_at_every_budget_and_reach_the_width(name, digit_tokens):
    law, widths = LAWS[name], []
    model = make_model(law, digit_tokens, np.random.default_rng(len(name)))
    for max_positions in (1, 10, 60, 3000):
        budget = {"width": 0.002, "max_positions": max_positions, "max_new_tokens": 12, "round_size": 16}
        bounds = bound_number_law(law, digit_tokens, model.score, **budget)
        assert_holds(bounds, law, model)
        widths.append(width(bounds))
    assert bounds.positions < 3000 and widths[-1] <= 0.002
    assert all(later <= earlier + 1e-9 for earlier, later in itertools.pairwise(widths))


@settings(max_examples=40, deadline=None)
@given(
    *(st.sampled_from(sorted(LAWS)), st.booleans(), st.integers(0, 10**6), st.integers(1, 60), st.integers(2, 8)),
    st.sampled_from([0.0, 0.1, 0.6]),
)
def test_bounds_hold_for_random_models(name, three, seed, positions, max_new_tokens, leak):
    digit_tokens = THREE_DIGITS if three else ONE_DIGIT
    law, rng = LAWS[name], np.random.default_rng(seed)
    model = make_model(law, digit_tokens, rng, size=20, leak=leak, max_new_tokens=max_new_tokens)
    budget = {"max_positions": positions, "max_new_tokens": max_new_tokens, "round_size": 5, "width": 0.01}
    bounds = bound_number_law(law, digit_tokens, model.score, **budget)
    if model.law(law)[2] > 0:
        assert_holds(bounds, law, model)
    assert bounds.positions <= positions


def test_a_model_without_any_number():
    model = SyntheticModel(ONE_DIGIT, [[OUTSIDE], [ONE_DIGIT.terminator], [10, 12]], [0.5, 0.3, 0.2], 8)
    bounds = bound_number_law(LAWS["normal"], ONE_DIGIT, model.score, max_new_tokens=8)
    assert (bounds.support_low, bounds.ks_low, bounds.wasserstein_1_low) == (0, 0, 0) and bounds.ks_high > 0.9


@pytest.mark.parametrize("exponent", [-2, 0, 5])
def test_round_numbers_are_nodes_of_the_grid(exponent):
    nodes = GridTarget(Law("norm", {"loc": 0.0, "scale": 10.0**exponent}), 2000).nodes
    assert np.isin([float(f"{k}e{exponent - 2}") for k in range(-300, 301)], nodes).all()
