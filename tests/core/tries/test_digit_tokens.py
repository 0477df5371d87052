"""Number strings, their tokens by digit arithmetic, and the tries built from them."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.core.laws.discretize import OutputSpace, discretize, discretize_all
from pipeline.core.laws.fixed_point import FixedPointStrings, fixed_point_bytes
from pipeline.core.prompts.structured import build_split
from pipeline.core.tries.trie import build_trie, build_tries
from tests.core.conftest import END, digit_tokens

indices = st.lists(st.integers(-(10**14), 10**14), min_size=1, max_size=40, unique=True).map(sorted)
spaces = st.tuples(indices, st.integers(0, 7)).flatmap(
    lambda case: st.tuples(
        st.just(case[0]), st.just(case[1]), st.lists(st.floats(0, 1), min_size=len(case[0]), max_size=len(case[0]))
    )
)


def space_of(case) -> OutputSpace:
    grid, decimals, weights = case
    mass = np.array(weights)
    mass[0] += 0.5
    return OutputSpace(FixedPointStrings(np.array(grid), decimals), mass / mass.sum())


@given(indices, st.integers(0, 7))
def test_text_is_pythons_own(grid, decimals):
    strings = FixedPointStrings(np.array(grid), decimals)
    expected = [
        f"{'-' * (k < 0)}{abs(k) // 10**decimals}" + (f".{abs(k) % 10**decimals:0{decimals}d}" * (decimals > 0))
        for k in grid
    ]
    assert list(strings) == expected
    assert strings[len(grid) // 2] == expected[len(grid) // 2] and strings[-1] == expected[-1]
    assert strings[1:3] == expected[1:3] and len(strings) == len(grid)
    text, offsets = fixed_point_bytes(np.array(grid), decimals)
    assert text.tobytes().decode() == "".join(expected) and offsets[-1] == len(text)


def test_groups_are_counted_from_the_left():
    rule = digit_tokens(3)
    ids = rule.encode("-12345.67890")
    assert [rule.text_of[token] for token in ids] == ["-", "123", "45", ".", "678", "90"]


@settings(max_examples=60, deadline=None)
@given(st.lists(spaces, min_size=1, max_size=4), st.sampled_from([1, 2, 3]))
def test_digit_arithmetic_builds_the_same_tries_as_token_sequences(cases, size):
    rule, members = digit_tokens(size), [space_of(case) for case in cases]
    for space, trie in zip(members, build_tries(members, rule), strict=True):
        expected = build_trie([rule.encode(text) for text in space.values], space.probabilities, END)
        for name in ("edge_offsets", "edge_tokens", "edge_children"):
            found = getattr(trie, name)
            np.testing.assert_array_equal(found, getattr(expected, name))
            assert found.dtype == np.int32
        np.testing.assert_allclose(trie.edge_probabilities, expected.edge_probabilities, rtol=1e-9)


def test_laws_together_equal_laws_alone():
    laws = [prompt.law for prompt in build_split("train")][::17]
    together = discretize_all(laws, num_decimals=4, max_bins=300)
    for law, space in zip(laws, together, strict=True):
        alone = discretize(law, num_decimals=4, max_bins=300)
        np.testing.assert_array_equal(space.values.indices, alone.values.indices)
        np.testing.assert_allclose(space.probabilities, alone.probabilities, rtol=0, atol=1e-15)
