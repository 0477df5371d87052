"""Grouping of token sequences by what they have in common at the start."""

from collections.abc import Sequence

# A shared prefix shorter than this saves less than the pass that it costs.
SHORTEST_SHARED = 16


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """Tokens that two sequences share at the start."""
    for index, (left, right) in enumerate(zip(first, second, strict=False)):
        if left != right:
            return index
    return min(len(first), len(second))


def prefix_groups(sequences: Sequence[Sequence[int]]) -> list[tuple[int, list[int]]]:
    """Put sequences with a long common start together.

    In lexicographic order, a sequence joins the group before it if at least half of it, and at least
    ``SHORTEST_SHARED`` tokens, is common to all of the group. Few-shot prompts of one task then share
    their examples, and prompts with examples of their own stay alone.

    Args:
        sequences: Token ids, at least one each.

    Returns:
        (tokens shared, indices into ``sequences``) of each group; a sequence alone shares all of its own.
        Every index occurs once.
    """
    order = sorted(range(len(sequences)), key=lambda index: (tuple(sequences[index]), index))
    groups: list[tuple[int, list[int]]] = []
    for index in order:
        sequence = sequences[index]
        if groups:
            length, members = groups[-1]
            shared = min(length, common_prefix(sequences[members[0]], sequence))
            longest = max(len(sequence), *(len(sequences[member]) for member in members))
            if shared >= SHORTEST_SHARED and 2 * shared >= longest:
                groups[-1] = (shared, [*members, index])
                continue
        groups.append((len(sequence), [index]))
    return groups
