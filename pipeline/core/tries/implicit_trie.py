"""The token prefix trie of a rounded law, without building it: the mass behind "-3.1" at five decimals is that of the
grid points from -3.19999 to -3.10000, and behind "3" that of [3, 4), [30, 40), [300, 400) and so on."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pipeline.core.laws.rounded_law import MAX_DIGITS, RoundedLaw
from pipeline.core.tries.digit_tokens import DigitTokens


@dataclass(frozen=True)
class _Prefix:
    """A canonical number so far: the number of its digits before the point, whether no digit may follow there (a short
    group, or a zero), the number of digits after the point (None before it), and the value of all digits, read as one
    integer."""

    negative: bool = False
    whole_digits: int = 0
    whole_ends: bool = False
    fraction_digits: int | None = None
    index: int = 0


@dataclass(frozen=True)
class _Children:
    """Candidate tokens int64[K], and ranges of magnitudes n = |k| behind them: ends int64[R] and whose it is."""

    tokens: np.ndarray
    firsts: np.ndarray
    stops: np.ndarray
    owner: np.ndarray


@dataclass(frozen=True)
class ImplicitTrie:
    """The trie of every canonical string of a rounded law under a tokenizer's digit rule."""

    law: RoundedLaw
    tokens: DigitTokens

    def next_tokens(self, prefix_ids: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """q(. | prefix) of Eq. 1: token ids int32[K], ascending, and their probabilities float64[K], all above 0."""
        prefix = _Prefix()
        for token in prefix_ids:
            prefix = self._extend(prefix, int(token))
        return self._targets([prefix])[0]

    def sample_paths(
        self, rng: np.random.Generator, size: int
    ) -> list[tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]]:
        """As ``Trie.sample_paths``."""
        paths = [self.tokens.encode(self.law.text(index)) for index in self.law.sample(rng, size)]
        prefixes: dict[tuple[int, ...], _Prefix] = {(): _Prefix()}
        for ids in paths:
            for k, token in enumerate(ids):
                if tuple(ids[: k + 1]) not in prefixes:
                    prefixes[tuple(ids[: k + 1])] = self._extend(prefixes[tuple(ids[:k])], token)
        targets = dict(zip(prefixes, self._targets(list(prefixes.values())), strict=True))
        return [
            (np.array([*ids, self.tokens.terminator], np.int32), [targets[tuple(ids[:k])] for k in range(len(ids) + 1)])
            for ids in paths
        ]

    def _extend(self, prefix: _Prefix, token: int) -> _Prefix:
        """The prefix after one more token of a canonical number."""
        text = self.tokens.text_of[token]
        if text == "-":
            return replace(prefix, negative=True)
        if text == ".":
            return replace(prefix, fraction_digits=0)
        index = prefix.index * 10 ** len(text) + int(text)
        if prefix.fraction_digits is not None:
            return replace(prefix, fraction_digits=prefix.fraction_digits + len(text), index=index)
        ends = len(text) < self.tokens.max_group or index == 0
        return replace(prefix, whole_digits=prefix.whole_digits + len(text), whole_ends=ends, index=index)

    def _children(self, prefix: _Prefix) -> _Children:
        if prefix.fraction_digits is not None:
            return self._after_point(prefix)
        unit, longest = 10**self.law.num_decimals, MAX_DIGITS - self.law.num_decimals
        tokens, ranges = [], []

        def add(token: np.ndarray, wholes: np.ndarray) -> np.ndarray:
            """Tokens behind each of which the part before the point is whole; their places."""
            owner = sum(map(len, tokens)) + np.arange(len(token))
            tokens.append(token)
            ranges.append((wholes * unit, (wholes + 1) * unit, owner))
            return owner

        if prefix == _Prefix():
            add(np.array([self.tokens.minus]), np.array([0]))
            # Stands for every negative index, see ``_targets``.
            ranges[-1] = (np.array([-1]), np.array([0]), np.array([0]))
        if prefix.whole_digits:
            # The whole part ends here: the point follows, or the terminator where there are no decimals.
            end = self.tokens.point if self.law.num_decimals else self.tokens.terminator
            add(np.array([end]), np.array([prefix.index]))
        if not prefix.whole_ends:
            for size, group in enumerate(self.tokens.groups, start=1):
                if prefix.whole_digits + size > longest:
                    break
                # No leading zeros but "0" itself.
                first = 0 if prefix.whole_digits or size == 1 else 10 ** (size - 1)
                values = np.arange(first, 10**size, dtype=np.int64)
                wholes = prefix.index * 10**size + values
                owner = add(group[values], wholes)
                if size == self.tokens.max_group:
                    grows = wholes > 0
                    for more in range(1, longest - prefix.whole_digits - size + 1):
                        reach = unit * 10**more
                        ranges.append((wholes[grows] * reach, (wholes[grows] + 1) * reach, owner[grows]))
        return _Children(np.concatenate(tokens), *(np.concatenate(part) for part in zip(*ranges, strict=True)))

    def _after_point(self, prefix: _Prefix) -> _Children:
        left = self.law.num_decimals - prefix.fraction_digits
        if not left:
            token, first = np.array([self.tokens.terminator]), np.array([prefix.index])
            return _Children(token, first, first + 1, np.array([0]))
        size = min(self.tokens.max_group, left)
        reach = 10 ** (left - size)
        firsts = (prefix.index * 10**size + np.arange(10**size, dtype=np.int64)) * reach
        return _Children(self.tokens.groups[size - 1], firsts, firsts + reach, np.arange(10**size))

    def _targets(self, prefixes: Sequence[_Prefix]) -> list[tuple[np.ndarray, np.ndarray]]:
        """``next_tokens`` at several prefixes, by one call of the law's functions."""
        children = [self._children(prefix) for prefix in prefixes]
        firsts, stops = [], []
        for prefix, child in zip(prefixes, children, strict=True):
            first, stop = child.firsts, child.stops
            if prefix.negative:
                # Magnitudes [n1, n2) are the indices -n2 < k <= -n1; there is no negative zero.
                first, stop = 1 - stop, 1 - np.maximum(first, 1)
            elif prefix == _Prefix():
                first = np.where(first == -1, self.law.bounds[0], first)
            firsts.append(first)
            stops.append(stop)
        sizes = np.cumsum([len(first) for first in firsts])[:-1]
        masses = np.split(self.law.masses(np.concatenate(firsts), np.concatenate(stops)), sizes)
        targets = []
        for child, mass in zip(children, masses, strict=True):
            total = np.bincount(child.owner, weights=mass, minlength=len(child.tokens))
            order = np.argsort(child.tokens)
            order = order[total[order] > 0]
            targets.append((child.tokens[order].astype(np.int32), total[order] / total[order].sum()))
        return targets
