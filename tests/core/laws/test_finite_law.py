"""Finite laws: what is refused, classes, quantiles, kernel densities; their spaces and tables survive a round trip."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pipeline.artifacts.output_spaces import OutputSpaceStore, write_output_spaces
from pipeline.artifacts.prompts import read_prompts, write_prompts
from pipeline.core.laws.discretize import discretize_all, finite_space
from pipeline.core.laws.family import Law
from pipeline.core.laws.finite_law import FiniteLaw, categorical_law, numeric_law, smoothed_law
from pipeline.core.laws.quantiles import quantile
from pipeline.core.prompts.structured import Prompt
from pipeline.errors import DomainError

TEXTS = st.text("abN ", min_size=1, max_size=5).filter(lambda text: text == text.strip())
WEIGHTS = st.dictionaries(TEXTS, st.integers(1, 50), min_size=1, max_size=12)


def shares(counts: dict[str, int]) -> dict[str, float]:
    return {text: count / sum(counts.values()) for text, count in counts.items()}


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"a": 0.5, "b": 0.4}, r"sum to 0.9, which is 0.1 off 1"),
        ({"a": 1.0, " b": 0.1}, "white space"),
        ({"": 1.0}, "white space"),
        ({"a\nb": 1.0}, "one line"),
        ({"a": 1.5, "b": -0.5}, "must be above 0"),
        ({}, "at least one"),
    ],
)
def test_what_is_no_law_is_refused(weights, message):
    with pytest.raises(DomainError, match=message):
        categorical_law(weights)
    with pytest.raises(DomainError, match="'b' is there twice"):
        categorical_law({"a": 0.5, "b": 0.5}, {"a": ["a", "b"]})
    with pytest.raises(DomainError, match="spellings of 'c'"):
        categorical_law({"a": 1.0}, {"c": ["d"]})


@given(WEIGHTS)
def test_spellings_share_the_mass_of_their_class(counts):
    law = categorical_law(shares(counts), {text: [text, f"{text}!"] for text in counts})
    assert law.class_names == tuple(counts)
    np.testing.assert_allclose(law.class_probabilities, list(shares(counts).values()))
    assert len(law.strings) == 2 * len(counts)


@given(st.lists(st.integers(-500, 500), min_size=1, max_size=30), st.integers(0, 2))
def test_quantiles_are_those_of_the_sorted_sample(indices, decimals):
    kept, counts = np.unique(indices, return_counts=True)
    law = numeric_law(kept, counts, decimals)
    levels = np.linspace(0.01, 0.99, 23)
    expected = np.quantile(np.array(indices) / 10**decimals, levels, method="inverted_cdf")
    np.testing.assert_allclose(quantile(law, levels), expected)
    assert law.integer == (decimals == 0) and law.support == (min(law.values), max(law.values))
    assert [float(text) for text in law.strings] == list(law.values)


def test_a_kernel_density_is_scipys_on_the_grid():
    values = np.array([1.0, 1.5, 2.25, 4.0, 4.0])
    weights = np.array([1.0, 2.0, 0.5, 3.0, 1.0])
    law = smoothed_law(values, weights, 2)
    assert law.strings[0] == "1.00" and law.strings[-1] == "4.00" and len(law.strings) == 301
    kernel = stats.gaussian_kde(values, weights=weights)
    inside = kernel.integrate_box_1d(0.995, 4.005)
    for place in (0, 40, 300):
        centre = law.values[place]
        mass = kernel.integrate_box_1d(centre - 0.005, centre + 0.005) / inside
        assert law.probabilities[place] == pytest.approx(mass, rel=1e-9)
    with pytest.raises(DomainError, match="nothing to smooth"):
        smoothed_law(np.ones(3), np.ones(3), 2)
    with pytest.raises(DomainError, match="give fewer decimals"):
        smoothed_law(np.array([0.0, 1e6]), np.ones(2), 2)


def test_prompts_and_spaces_keep_their_laws_beside_scipys(tmp_path):
    laws = [
        Law("poisson", {"mu": 2.0}),
        categorical_law({"New York": 0.5, "New": 0.3, "Zürich": 0.2}, {"New": ["New", "new"]}),
        Law("norm", {"loc": 0.0, "scale": 1.0}),
        numeric_law(np.array([-15, 0, 7]), np.array([1.0, 2.0, 1.0]), 1),
    ]
    prompts = [Prompt(f"p{n}", "train", "f", "", {"region": "N", "a": 1.5}, f"t{n}", law) for n, law in enumerate(laws)]
    write_prompts(tmp_path / "prompts.parquet", prompts)
    assert read_prompts(tmp_path / "prompts.parquet") == prompts
    spaces = dict(zip("abcd", discretize_all(laws, num_decimals=2, max_bins=50), strict=True))
    write_output_spaces(tmp_path / "spaces.parquet", spaces)
    store = OutputSpaceStore(tmp_path / "spaces.parquet")
    assert list(store) == list("abcd")
    for name, space in spaces.items():
        assert list(store[name].values) == list(space.values)
        np.testing.assert_array_equal(store[name].probabilities, space.probabilities)
    assert isinstance(laws[1], FiniteLaw) and list(store["b"].values) == list(finite_space(laws[1]).values)
