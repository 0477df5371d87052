"""Canonical number strings: fixed-point decimals made from integers."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np


def count_digits(whole: np.ndarray) -> np.ndarray:
    """int64 number of decimal digits of non-negative int64 values; 1 for 0."""
    return np.searchsorted(10 ** np.arange(1, 19, dtype=np.int64), whole, side="right") + 1


def fixed_point_bytes(indices: np.ndarray, num_decimals: int) -> tuple[np.ndarray, np.ndarray]:
    """uint8[total] ASCII text of k * 10^-num_decimals for each k of int64[M], and int64[M + 1] offsets of the strings;
    zero has no sign."""
    indices = np.asarray(indices, dtype=np.int64)
    magnitude = np.abs(indices)
    num_digits = np.maximum(count_digits(magnitude), num_decimals + 1)
    widest = int(num_digits.max(initial=1))
    has_point = int(num_decimals > 0)
    # Right-aligned: one column for the sign and, where there are decimals, one for the point.
    width = 1 + widest + has_point
    text = np.empty((len(indices), width), dtype=np.uint8)
    column, rest = width - 1, magnitude
    for position in range(widest):
        if position == num_decimals and has_point:
            text[:, column] = ord(".")
            column -= 1
        quotient = rest // 10
        text[:, column] = rest - 10 * quotient + ord("0")
        column, rest = column - 1, quotient
    first = width - num_digits - has_point
    negative = indices < 0
    text[negative, first[negative] - 1] = ord("-")
    first -= negative
    offsets = np.concatenate([[0], np.cumsum(width - first)])
    return text[np.arange(width) >= first[:, None]], offsets


class FixedPointStrings(Sequence[str]):
    """The canonical strings of int64[M] ascending grid indices; text is made where it is asked for."""

    def __init__(self, indices: np.ndarray, num_decimals: int):
        self.indices, self.num_decimals = indices, num_decimals

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return list(FixedPointStrings(self.indices[index], self.num_decimals))
        return next(iter(FixedPointStrings(self.indices[[index]], self.num_decimals)))

    def __iter__(self) -> Iterator[str]:
        data, offsets = fixed_point_bytes(self.indices, self.num_decimals)
        text, ends = data.tobytes().decode("ascii"), offsets.tolist()
        return iter([text[start:end] for start, end in pairwise(ends)])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)
