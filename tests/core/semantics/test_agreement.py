"""Agreement with people, credal sets, uncertainty measures and alignment: known values, invariants, known worlds."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy as scipy_entropy
from scipy.stats import pearsonr

from pipeline.core.semantics.agreement import (
    agreement,
    jensen_shannon,
    people_against_people,
    smoothed_divergence,
    total_variation,
)
from pipeline.core.semantics.alignment import correlation, human_alignment, orders_within, partial_correlation
from pipeline.core.semantics.credal import (
    diameter,
    entropy,
    entropy_bounds,
    entropy_split,
    hull_distances,
    hull_volume,
    simplex_volume,
    upper_entropy,
)
from pipeline.axes.questions.question import OTHER
from pipeline.core.semantics.uncertainty import (
    choice_measures,
    lexical_similarities,
    longest_common_share,
    nucleus_size,
    similarity_measures,
    token_measures,
)

LAWS = st.integers(2, 6).flatmap(
    lambda k: st.lists(st.lists(st.integers(0, 9), min_size=k, max_size=k).filter(any), min_size=1, max_size=5)
)


def laws(counts):
    counts = np.array(counts, dtype=float)
    return counts / counts.sum(axis=1, keepdims=True)


BERNOULLI = np.array([[0.6, 0.4], [0.9, 0.1]])


def test_agreement_of_one_question_by_hand():
    people, model = {"a": 60, "b": 30, OTHER: 10}, {"a": 10, OTHER: 10}
    found = agreement(people, model)
    assert found["human_tv"] == pytest.approx((0.1 + 0.3 + 0.4) / 2)
    assert found["human_recall"] == pytest.approx(0.7) and found["same_top_answer"] == 1
    laws_ = np.array([0.6, 0.3, 0.1]), np.array([0.5, 0, 0.5])
    assert found["human_js_bits"] == pytest.approx(jensenshannon(*laws_, base=2) ** 2)
    smoothed = (np.array([60, 30, 10]) + 0.5) / 101.5, (np.array([10, 0, 10]) + 0.5) / 21.5
    assert found["human_kl_nats"] == pytest.approx(scipy_entropy(*smoothed))
    assert found["entropy_gap_nats"] == pytest.approx(found["model_entropy_nats"] - found["people_entropy_nats"])


@given(LAWS)
def test_distances_are_metrics_in_their_range(counts):
    found = laws(counts)
    first, second = found[0], found[-1]
    assert total_variation(first, first) == 0 and jensen_shannon(first, first) == 0
    assert total_variation(first, second) == pytest.approx(total_variation(second, first))
    assert 0 <= jensen_shannon(first, second) <= total_variation(first, second) + 1e-9 <= 1 + 1e-9
    divergences = smoothed_divergence(np.array(counts), np.array(counts)[::-1])
    assert divergences.shape == (len(counts),) and (divergences >= -1e-12).all()


def test_two_samples_of_a_hundred_people():
    rng = np.random.default_rng(0)
    band = np.concatenate(
        [
            people_against_people(rng.multinomial(100, rng.dirichlet(np.ones(8))), 100, rng, 10)["human_tv"]
            for _ in range(200)
        ]
    )
    # The laws behind the two samples are those of a sample of a hundred, which is less even than its own law.
    assert band.mean() == pytest.approx(0.127, abs=0.01) and np.quantile(band, 0.95) == pytest.approx(0.2, abs=0.015)


def test_a_model_that_answers_as_people_do_is_within_the_band():
    rng = np.random.default_rng(1)
    inside = []
    for _ in range(150):
        law = rng.dirichlet(np.ones(6))
        people, model = rng.multinomial(100, law), rng.multinomial(50, law)
        found = total_variation(people / 100, model / 50)
        inside.append(found <= np.quantile(people_against_people(people, 50, rng)["human_tv"], 0.95))
    assert 0.88 < np.mean(inside) <= 1


def test_hull_distances_of_two_coins():
    half, inside = np.array([0.5, 0.5]), np.array([0.7, 0.3])
    found = hull_distances([BERNOULLI, BERNOULLI], [half, inside])
    assert found[0][0] == pytest.approx(0.1) and found[1][0] == pytest.approx(0, abs=1e-9)
    np.testing.assert_allclose(found[1][1], [2 / 3, 1 / 3])
    assert hull_distances([], []) == []


@settings(max_examples=40)
@given(LAWS, st.integers(0, 2**31))
def test_a_mixture_is_in_the_hull_and_no_law_is_nearer_than_the_nearest_point(counts, seed):
    members, rng = laws(counts), np.random.default_rng(seed)
    law = rng.dirichlet(np.ones(members.shape[1]))
    inside = rng.dirichlet(np.ones(len(members))) @ members
    (distance, weights), (zero, _) = hull_distances([members, members], [law, inside])
    assert zero == pytest.approx(0, abs=1e-8)
    assert weights.sum() == pytest.approx(1) and (weights >= -1e-9).all()
    assert distance == pytest.approx(total_variation(weights @ members, law), abs=1e-7)
    mixtures = rng.dirichlet(np.ones(len(members)), size=50) @ members
    assert distance <= total_variation(mixtures, law).min() + 1e-8
    # Another member makes the set no smaller.
    more = np.vstack([members, rng.dirichlet(np.ones(members.shape[1]))])
    assert hull_distances([more], [law])[0][0] <= distance + 1e-8
    assert upper_entropy(more) >= upper_entropy(members) - 1e-6
    assert entropy(mixtures).max() <= upper_entropy(members) + 1e-6
    assert upper_entropy(members) <= math.log(members.shape[1]) + 1e-9


def test_entropies_of_two_coins():
    split, bounds = entropy_split(BERNOULLI), entropy_bounds(BERNOULLI)
    assert split["total_entropy_nats"] == pytest.approx(0.56235, abs=2e-5)
    assert split["within_entropy_nats"] == pytest.approx(0.49905, abs=1e-5)
    assert split["between_entropy_nats"] == pytest.approx(0.06329, abs=1e-5)
    assert bounds["lower_entropy_nats"] == pytest.approx(0.32508, abs=1e-5)
    assert bounds["upper_entropy_nats"] == pytest.approx(0.67301, abs=1e-5)
    assert upper_entropy(np.array([[0.4, 0.6], [0.9, 0.1]])) == pytest.approx(math.log(2))
    assert entropy_split(BERNOULLI[:1])["between_entropy_nats"] == 0
    assert entropy_bounds(BERNOULLI[:1])["imprecision_nats"] == 0
    assert diameter(BERNOULLI) == pytest.approx(0.3)


@pytest.mark.parametrize(("classes", "volume"), [(3, 0.8660254), (4, 1 / 3), (5, 0.0931695)])
def test_volumes(classes, volume):
    assert simplex_volume(classes) == pytest.approx(volume, abs=1e-7)
    corners = np.eye(classes)
    assert hull_volume(corners) == pytest.approx(volume, abs=1e-7)
    shrunk = 0.3 * corners + 0.7 / classes
    assert hull_volume(shrunk) == pytest.approx(0.3 ** (classes - 1) * volume)
    assert hull_volume(corners[:2]) == 0 and hull_volume(np.repeat(corners[:1], 9, axis=0)) == 0
    assert math.isnan(hull_volume(np.eye(7)))


def test_uniform_one_hot_and_nucleus():
    uniform, one_hot = np.full(200, 1 / 200), np.eye(200)[3]
    for name, value in token_measures(uniform).items():
        if "entropy" in name:
            assert value == pytest.approx(1), name
    found = token_measures(one_hot)
    assert all(found[name] == 0 for name in found if "entropy" in name or name == "log_top_probability")
    assert found["nucleus_size_0.5"] == 1
    law = np.array([0.2, 0.5, 0.3])
    assert nucleus_size(law, 0.75) == 2
    expected = scipy_entropy([0.625, 0.375]) / math.log(2)
    assert token_measures(law)["top_p_entropy_0.75"] == pytest.approx(expected) == pytest.approx(0.9544, abs=1e-4)
    # Mass exactly reached: the next token's is not below it.
    assert nucleus_size(np.array([0.5, 0.5]), 0.5) == 1


def test_choices_sum_the_spellings_of_an_option():
    law = np.array([0.1, 0.2, 0.3, 0.15, 0.25])
    found = choice_measures(law, [[0, 1], [2, 2]])
    assert found["choice_entropy"] == pytest.approx(1) and found["choice_mass"] == pytest.approx(0.6)
    assert found["log_top_choice"] == pytest.approx(math.log(0.5))
    assert math.isnan(choice_measures(np.eye(5)[4], [[0], [1]])["choice_entropy"])
    with pytest.raises(ValueError, match="tokens of their own"):
        choice_measures(law, [[0, 1], [1]])


def test_measures_of_samples():
    clusters = np.kron(np.eye(3), np.ones((2, 2)))
    found = similarity_measures(clusters)
    assert found["laplacian_eigenvalues"] == pytest.approx(3)
    assert found["lexical_similarity"] == pytest.approx(6 / 30)
    assert similarity_measures(np.ones((4, 4)))["laplacian_eigenvalues"] == pytest.approx(1)
    assert longest_common_share(["a", "b", "c", "d"], ["b", "x", "d"]) == pytest.approx(4 / 7)
    assert longest_common_share([], []) == 1 and longest_common_share([], ["a"]) == 0
    found = lexical_similarities([["red", "fox"], [], ["red", "fox"], ["red"]])
    expected = [[1, 0, 1, 2 / 3], [0, 1, 0, 0], [1, 0, 1, 2 / 3], [2 / 3, 0, 2 / 3, 1]]
    np.testing.assert_allclose(found, expected)


def independent_world(questions, rng):
    options = rng.integers(2, 7, questions)
    sides = [[float(entropy(rng.dirichlet(np.ones(count)))) for count in options] for _ in range(2)]
    return *map(np.array, sides), options


def test_independent_answers_look_aligned_until_the_number_of_options_is_held():
    rng = np.random.default_rng(0)
    model, people, options = independent_world(4000, rng)
    assert correlation(model, people) == pytest.approx(0.75, abs=0.04)
    assert correlation(model / np.log(options), people / np.log(options)) == pytest.approx(0, abs=0.08)
    assert partial_correlation(model, people, options) == pytest.approx(0, abs=0.05)


def test_alignment_is_found_where_it_is_and_not_where_it_is_not():
    rng = np.random.default_rng(1)
    model, people, options = independent_world(150, rng)
    none = human_alignment(model, people, options, replicates=200, rng=rng)
    assert none["raw_pearson"] > 0.6 and none["permutation_p"] > 0.05
    assert abs(none["partial_pearson"]) < 0.2
    some = human_alignment(people + 0.1 * model, people, options, replicates=200, rng=rng)
    assert some["partial_pearson"] > 0.8 and some["permutation_p"] == pytest.approx(1 / 201)
    assert some["normalised_pearson"] > 0.8
    constant = human_alignment(np.log(options), people, options, replicates=100, rng=rng)
    # A measure that is the number of options alone has nothing left.
    assert math.isnan(constant["partial_pearson"]) and math.isnan(constant["permutation_p"])


def test_partial_correlations_are_those_of_residuals_and_weights_are_repetitions():
    rng = np.random.default_rng(2)
    strata = np.repeat([2, 3, 5], 8)
    first, second = rng.normal(size=(2, 24)) + strata
    residuals = [values - np.array([values[strata == own].mean() for own in strata]) for values in (first, second)]
    assert partial_correlation(first, second, strata) == pytest.approx(pearsonr(*residuals).statistic)
    # Many at once, strata that a resample lacks included.
    weights = np.array([np.ones(24), rng.multinomial(24, np.full(24, 1 / 24)), strata > 2])
    together = partial_correlation(first + 1e6, second, strata, weights)
    for row, found in zip(weights.astype(int), together, strict=True):
        repeated = [np.repeat(values, row) for values in (first, second, strata)]
        assert found == pytest.approx(partial_correlation(*repeated), abs=1e-8)
    orders = orders_within(strata, 50, rng)
    assert (strata[orders] == strata).all() and len(np.unique(orders, axis=0)) == 50
    assert (np.sort(orders, axis=1) == np.arange(24)).all()


def test_the_permutation_test_keeps_its_level():
    rejected = []
    for seed in range(50):
        rng = np.random.default_rng(seed)
        found = human_alignment(*independent_world(40, rng), replicates=39, rng=rng)
        rejected.append(found["permutation_p"] <= 0.05)
    assert np.mean(rejected) <= 0.12
