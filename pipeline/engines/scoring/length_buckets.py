"""Grouping of sequences of similar length, so that little of a padded batch is padding."""

from collections.abc import Sequence


def length_buckets(lengths: Sequence[int], tokens_per_pass: int) -> list[list[int]]:
    """Indices of the sequences by forward pass, longest first, so that too large a pass fails at once.

    Args:
        lengths: Tokens of each sequence.
        tokens_per_pass: Tokens per pass at most, padding included; a longer sequence goes alone.
    """
    buckets: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda item: (-lengths[item], item)):
        if not buckets or lengths[buckets[-1][0]] * (len(buckets[-1]) + 1) > tokens_per_pass:
            buckets.append([])
        buckets[-1].append(index)
    return buckets
