"""How a tokenizer writes plain decimals: one token per digit (Qwen, Gemma), or groups of up to three from the left of
each run of digits (Llama 3, GPT-OSS), where "12345.67890" is 123|45|.|678|90."""

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class DigitTokens:
    """Token ids of the pieces of a plain decimal, and of the terminator that ends an answer; ``groups[n - 1]`` is
    int32[10^n], the token of every n-digit group by its value, leading zeros included."""

    groups: tuple[np.ndarray, ...]
    minus: int
    point: int
    terminator: int

    @property
    def max_group(self) -> int:
        """Digits in the longest group."""
        return len(self.groups)

    @cached_property
    def text_of(self) -> dict[int, str]:
        """Text of every token of a plain decimal; the terminator is not among them."""
        texts = {self.minus: "-", self.point: "."}
        for size, tokens in enumerate(self.groups, start=1):
            texts.update((int(token), f"{value:0{size}d}") for value, token in enumerate(tokens))
        return texts

    def encode(self, text: str) -> list[int]:
        """Token ids of one plain decimal, without terminator."""
        ids = []
        for run, mark in re.findall(r"([0-9]+)|([^0-9])", text):
            if mark:
                ids.append(self.minus if mark == "-" else self.point)
            for start in range(0, len(run), self.max_group):
                group = run[start : start + self.max_group]
                ids.append(int(self.groups[len(group) - 1][int(group)]))
        return ids
