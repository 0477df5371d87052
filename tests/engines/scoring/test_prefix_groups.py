"""Grouping of token sequences by their common start."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.engines.scoring.continuation_scorer import SHORTEST_SHARED, common_prefix, prefix_groups


def test_common_prefix():
    assert common_prefix([1, 2, 3], [1, 2, 4, 5]) == 2
    assert common_prefix([1, 2], [1, 2, 3]) == 2
    assert common_prefix([], [1]) == 0
    assert common_prefix([2], [1]) == 0


def test_few_shot_prompts_share_their_examples():
    examples, other = list(range(100, 130)), list(range(200, 240))
    prompts = [[*examples, 1, 2], [*other, 5], [*examples, 3], [7, 8], [*other, 6, 9, 4]]
    assert prefix_groups(prompts) == [(2, [3]), (30, [0, 2]), (40, [1, 4])]


def test_a_short_common_start_is_not_worth_a_pass():
    start = list(range(SHORTEST_SHARED - 1))
    assert [members for _, members in prefix_groups([[*start, 500], [*start, 600]])] == [[0], [1]]
    start.append(499)
    assert prefix_groups([[*start, 500], [*start, 600]]) == [(SHORTEST_SHARED, [0, 1])]


def test_less_than_half_is_not_shared():
    start = list(range(20))
    long = [[*start, first, *range(300, 340)] for first in (50, 60)]
    assert [members for _, members in prefix_groups(long)] == [[0], [1]]


tokens = st.lists(st.integers(0, 1), min_size=1, max_size=6)
starts = st.sampled_from([[], [5] * 16, [5] * 40, [6] * 17, [5] * 16 + [7] * 16])


@given(st.lists(st.builds(lambda start, tail: [*start, *tail], starts, tokens), max_size=20))
def test_groups_are_a_partition_and_what_they_share_is_shared(sequences):
    groups = prefix_groups(sequences)
    assert sorted(index for _, members in groups for index in members) == list(range(len(sequences)))
    for shared, members in groups:
        first = sequences[members[0]]
        assert all(sequences[index][:shared] == first[:shared] for index in members)
        assert shared <= min(len(sequences[index]) for index in members)
        if len(members) > 1:
            assert shared >= SHORTEST_SHARED
            assert all(2 * shared >= len(sequences[index]) for index in members)
        else:
            assert shared == len(first)
