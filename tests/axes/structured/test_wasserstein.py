"""Quantiles, W1 and floors against SciPy and closed forms."""

import math

import numpy as np
import pytest

from pipeline.axes.structured import wasserstein
from pipeline.axes.structured.wasserstein import evaluate_prompt, perfect_sampler_replicates
from pipeline.core.laws.families import get_family
from pipeline.core.laws.family import Law
from pipeline.core.laws.quantiles import quantile
from pipeline.core.prompts.structured import build_split
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.intervals import at_places, by_family, combine

INTEGER_PROMPTS = [p for split in ("unseen", "ood") for p in build_split(split, selection="selected") if p.law.integer]


@pytest.mark.parametrize("prompt", INTEGER_PROMPTS, ids=lambda prompt: prompt.prompt_id)
def test_integer_quantiles_equal_scipys(prompt):
    levels = np.concatenate([[1e-9, 1e-4, 0.5, 0.9999, 1 - 1e-9], np.linspace(0.001, 0.999, 201)])
    np.testing.assert_array_equal(quantile(prompt.law, levels), prompt.law.freeze().ppf(levels))


def test_degenerate_integer_law():
    # SciPy's own ppf does not terminate on some laws of a single value.
    law = Law("hypergeom", {"M": 10.0, "n": 10.0, "N": 4.0})
    assert quantile(law, np.array([0.01, 0.99])).tolist() == [4, 4]
    # It has no width, so nothing is measured in it.
    assert math.isnan(wasserstein_1(np.array([4.0]), law))
    assert np.isnan(perfect_sampler_replicates(law, 3, 2, random_stream(0))).all()


def wasserstein_1(samples, law):
    """Normalised Eq. 5 of one sample."""
    return wasserstein.wasserstein_1(np.sort(samples)[None], law)[0]


def test_a_shifted_sample_is_as_far_as_its_shift():
    law = get_family("logistic").law_at({"mu": 0.0, "s": 1.0})
    perfect = law.freeze().ppf((np.arange(1, 101) - 0.5) / 100)
    # Q95 - Q05 = 2 log 19.
    shifted = np.random.default_rng(0).permutation(perfect) + 0.25
    assert wasserstein_1(shifted, law) == pytest.approx(0.25 / (2 * math.log(19)))


def test_a_point_mass():
    # U(0, 1) against samples that are all 0: mean of (i - 0.5) / N is 1/2; Q95 - Q05 = 0.9.
    law = get_family("uniform").law_at({"a": 0.0, "b": 1.0})
    assert evaluate_prompt(["0.0"] * 64, law).wasserstein_1_normalised == pytest.approx(0.5 / 0.9)


def test_no_samples_is_undefined_not_zero():
    law = get_family("gaussian").law_at({"mu": 0.0, "sigma": 1.0})
    assert math.isnan(evaluate_prompt(["x", ""], law).wasserstein_1_normalised)
    assert np.isnan(perfect_sampler_replicates(law, 0, 2, random_stream(0))).all()


def test_reasons_are_counted():
    law = get_family("binomial").law_at({"n": 5.0, "p": 0.5})
    result = evaluate_prompt(["3", "2.5", "9", "abc", "", "1.0", "xyz"], law)
    assert result.samples.tolist() == [3, 1] and result.decimals.tolist() == [0, 1] and result.num_samples == 7
    assert result.invalid == {"not_an_integer": 1, "out_of_support": 1, "not_a_number": 2, "empty": 1}
    assert result.valid_rate == pytest.approx(2 / 7)


@pytest.mark.parametrize(("split", "low", "high"), [("ood", 0.0092, 0.0143), ("unseen", 0.0107, 0.0150)])
def test_perfect_sampler_floor_at_1000(split, low, high):
    # The ends are the measured 95% range of the aggregate; its mean lies inside.
    prompts = build_split(split, selection="selected")
    replicates = np.stack(
        [perfect_sampler_replicates(p.law, 1000, 40, random_stream(0, "test", p.prompt_id)) for p in prompts]
    )
    places = by_family(np.array([prompt.family for prompt in prompts]))
    assert low < combine(at_places(replicates.T, places), "family_median").mean() < high
