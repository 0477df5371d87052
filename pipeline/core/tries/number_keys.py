"""Token sequences packed into 64-bit words that sort as the sequences do: each token is its rank among the tokens in
use (1 for the smallest id, 0 for "past the end") in a fixed number of bits, first token first."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pipeline.core.laws.fixed_point import FixedPointStrings, count_digits
from pipeline.core.tries.digit_tokens import DigitTokens


@dataclass(frozen=True)
class PackedSequences:
    """R token sequences, terminators included, of at most ``length`` tokens: uint64[R] ``words``, most significant
    first, with ``bits`` for each token. ``token_of_rank`` is int32[ranks + 1], -1 at 0."""

    words: list[np.ndarray]
    bits: int
    length: int
    token_of_rank: np.ndarray

    def place(self, position: int) -> tuple[int, np.uint64]:
        """Word and shift of the token at a position (from 0)."""
        per_word = 64 // self.bits
        word, slot = divmod(position, per_word)
        return word, np.uint64(self.bits * (per_word - 1 - slot))

    def ranks(self, position: int) -> np.ndarray:
        word, shift = self.place(position)
        return (self.words[word] >> shift) & np.uint64((1 << self.bits) - 1)

    def take(self, rows: np.ndarray) -> "PackedSequences":
        return replace(self, words=[word[rows] for word in self.words])


def _empty(num_rows: int, length: int, tokens: np.ndarray) -> PackedSequences:
    token_of_rank = np.concatenate([[-1], np.unique(tokens)]).astype(np.int32)
    bits = int(len(token_of_rank) - 1).bit_length()
    num_words = -(-length // (64 // bits))
    return PackedSequences([np.zeros(num_rows, dtype=np.uint64) for _ in range(num_words)], bits, length, token_of_rank)


def pack_sequences(sequences: Sequence[Sequence[int]], terminator: int) -> PackedSequences:
    """Pack token id sequences, each followed by the terminator. Raises ValueError where one contains it."""
    lengths = np.array([len(sequence) for sequence in sequences])
    flat = np.fromiter((token for sequence in sequences for token in sequence), np.int64, count=int(lengths.sum()))
    if (flat == terminator).any():
        raise ValueError(f"a token sequence contains the terminator {terminator}")
    packed = _empty(len(sequences), int(lengths.max()) + 1, np.append(flat, terminator))
    ranks = np.zeros((len(sequences), packed.length), dtype=np.uint64)
    filled = np.arange(packed.length) < lengths[:, None]
    ranks[filled] = np.searchsorted(packed.token_of_rank, flat)
    ranks[np.arange(len(sequences)), lengths] = np.searchsorted(packed.token_of_rank, terminator)
    for position in range(packed.length):
        word, shift = packed.place(position)
        packed.words[word] |= ranks[:, position] << shift
    return packed


def pack_numbers(values: Sequence[FixedPointStrings], tokens: DigitTokens) -> PackedSequences:
    """Pack the tokens of canonical numbers of several spaces by digit arithmetic, without making the strings."""
    indices = np.concatenate([strings.indices for strings in values])
    sizes = [len(strings) for strings in values]
    decimals = np.repeat([strings.num_decimals for strings in values], sizes)
    most_decimals = int(decimals.max())
    magnitude = np.abs(indices)
    whole = magnitude // 10**most_decimals
    if most_decimals:
        for size in np.unique(decimals[decimals < most_decimals]):
            whole = np.where(decimals == size, magnitude // 10**size, whole)
    num_whole = count_digits(whole)
    most_groups = -(-int(num_whole.max()) // tokens.max_group) + -(-most_decimals // tokens.max_group)
    marks = [tokens.minus, tokens.point, tokens.terminator]
    packed = _empty(len(indices), most_groups + 3, np.concatenate([*tokens.groups, marks]))
    rank_of_group = [np.searchsorted(packed.token_of_rank, group).astype(np.uint64) for group in tokens.groups]
    minus, point, terminator = np.searchsorted(packed.token_of_rank, marks).astype(np.uint64)
    # Rows of one shape (sign, decimals, digits before the point) have their tokens at the same positions.
    shape = (num_whole * (most_decimals + 1) + decimals) * 2 + (indices < 0)
    for code in np.flatnonzero(np.bincount(shape)):
        rows = np.flatnonzero(shape == code)
        rest, negative = divmod(int(code), 2)
        whole_digits, num_decimals = divmod(rest, most_decimals + 1)
        ranks = [minus] if negative else []
        ranks += _group_ranks(whole[rows], whole_digits, rank_of_group)
        if num_decimals:
            fraction = magnitude[rows] - whole[rows] * 10**num_decimals
            ranks += [point, *_group_ranks(fraction, num_decimals, rank_of_group)]
        words = [np.zeros(len(rows), dtype=np.uint64) for _ in packed.words]
        for position, rank in enumerate([*ranks, terminator]):
            word, shift = packed.place(position)
            words[word] |= rank << shift
        for word, part in zip(packed.words, words, strict=True):
            word[rows] = part
    return packed


def _group_ranks(number: np.ndarray, num_digits: int, rank_of_group: list[np.ndarray]) -> list[np.ndarray]:
    ranks, rest = [], number
    while num_digits:
        size = min(len(rank_of_group), num_digits)
        num_digits -= size
        group = rest // 10**num_digits if num_digits else rest
        rest = rest - group * 10**num_digits
        ranks.append(rank_of_group[size - 1][group])
    return ranks
