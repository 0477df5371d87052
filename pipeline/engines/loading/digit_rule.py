"""A tokenizer's digit rule: guessed from its vocabulary, then verified against the tokenizer itself."""

from collections.abc import Iterator, Mapping

import numpy as np
from transformers import PreTrainedTokenizerBase

from pipeline.core.laws.discretize import OutputSpace
from pipeline.core.laws.fixed_point import FixedPointStrings
from pipeline.core.tries.digit_tokens import DigitTokens
from pipeline.core.tries.trie import Trie, build_trie, build_tries
from pipeline.engines.loading.chat import answer_terminator, encode_answers
from pipeline.errors import ModelError

LONGEST_GROUP = 3


def _candidate(tokenizer: PreTrainedTokenizerBase, max_group: int, terminator: int) -> DigitTokens | None:
    """The rule with digit groups up to this size, where each of them is a single token, and so are sign and point."""
    sizes = range(1, max_group + 1)
    groups = [encode_answers(tokenizer, [f"{value:0{size}d}" for value in range(10**size)]) for size in sizes]
    minus, point = encode_answers(tokenizer, ["-1", "1.5"])
    if any(len(ids) != 1 for group in groups for ids in group) or (len(minus), len(point)) != (2, 3):
        return None
    return DigitTokens(tuple(np.array(group, dtype=np.int32)[:, 0] for group in groups), minus[0], point[1], terminator)


def verification_numbers(max_group: int, num_decimals: int, longest_whole: int = 8) -> list[str]:
    """Numbers in which every digit group occurs at every place, with either sign and with decimals or none."""
    rng = np.random.default_rng(0)
    size = 10**max_group

    def digits(length: int) -> list[str]:
        """``size`` runs of digits; each group of the run takes every value once."""
        columns = [rng.permutation(size) for _ in range(-(-length // max_group))]
        return ["".join(f"{column[row]:0{max_group}d}" for column in columns)[:length] for row in range(size)]

    numbers = []
    for sign in ("", "-"):
        for whole_digits in range(1, longest_whole + 1):
            # A canonical number has no leading zero but in "0.".
            whole = [f"7{run[1:]}" if run[0] == "0" and whole_digits > 1 else run for run in digits(whole_digits)]
            numbers += [sign + text for text in whole]
            if num_decimals:
                fractions = digits(num_decimals)
                numbers += [f"{sign}{text}.{fraction}" for text, fraction in zip(whole, fractions, strict=True)]
    return numbers


def find_digit_tokens(tokenizer: PreTrainedTokenizerBase, terminator: int, num_decimals: int = 5) -> DigitTokens | None:
    """The rule with the longest digit groups that holds for every verification number; None where none does."""
    for max_group in range(LONGEST_GROUP, 0, -1):
        if tokens := _candidate(tokenizer, max_group, terminator):
            numbers = verification_numbers(max_group, num_decimals)
            if list(map(tokens.encode, numbers)) == encode_answers(tokenizer, numbers):
                return tokens
    return None


def answer_tokens(
    tokenizer: PreTrainedTokenizerBase, terminator: str, num_decimals: int
) -> tuple[int, DigitTokens | None]:
    """The token that ends an answer, ``terminator`` being what the model's configuration says, and the digit rule."""
    ends = answer_terminator(tokenizer, terminator)
    return ends, find_digit_tokens(tokenizer, ends, num_decimals)


def tries_of(
    tokenizer: PreTrainedTokenizerBase, tokens: DigitTokens | None, terminator: int, spaces: Mapping[str, OutputSpace]
) -> Iterator[tuple[str, Trie]]:
    """(prompt id, trie) of every output space, by digit arithmetic (``tokens``, of ``find_digit_tokens``).

    Without a digit rule, and always where strings are no canonical decimals, by the tokenizer; such tries may hold
    strings that begin others. Raises ModelError where the tokenizer cannot write a string, or writes two alike.
    """
    opened = dict(spaces)
    numbers = {name: space for name, space in opened.items() if tokens and isinstance(space.values, FixedPointStrings)}
    built = build_tries(list(numbers.values()), tokens)
    for name, space in opened.items():
        yield name, next(built) if name in numbers else _trie_of_texts(tokenizer, terminator, name, space)


def _trie_of_texts(tokenizer: PreTrainedTokenizerBase, terminator: int, name: str, space: OutputSpace) -> Trie:
    encoded = encode_answers(tokenizer, list(space.values))
    if not isinstance(space.values, FixedPointStrings):
        written = tokenizer.batch_decode(encoded, clean_up_tokenization_spaces=False)
        for text, found in zip(space.values, written, strict=True):
            if found.strip() != text:
                raise ModelError(f"{name}: the tokenizer {tokenizer.name_or_path!r} writes {text!r} as {found!r}")
    try:
        return build_trie(encoded, space.probabilities, terminator)
    except ValueError as error:
        raise ModelError(f"{name}: no trie of its strings: {error}") from None
