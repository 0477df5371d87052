"""From generated text to a number, or to the reason why it is none (Appendix C.1); any text in, no exception out."""

import math
import re
from enum import StrEnum

THINK_START, THINK_END = "<think>", "</think>"
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


class Invalid(StrEnum):
    """The one reason why a generation is not a valid sample."""

    UNCLOSED_REASONING = "unclosed_reasoning"
    EMPTY = "empty"
    NO_ANSWER = "no_answer"
    SEVERAL_ANSWERS = "several_answers"
    UNCLOSED_ANSWER = "unclosed_answer"
    NOT_A_NUMBER = "not_a_number"
    NOT_FINITE = "not_finite"
    NOT_AN_INTEGER = "not_an_integer"
    OUT_OF_SUPPORT = "out_of_support"


def strip_reasoning(text: str) -> str | None:
    """The text after the last reasoning trace, stripped; None if a trace never closes."""
    head, closed, tail = text.rpartition(THINK_END)
    answer = tail if closed else head or tail
    return None if THINK_START in answer else answer.strip()


def parse_number(text: str) -> float | Invalid:
    """Parse a whole answer as one decimal or scientific literal in ASCII digits."""
    answer = strip_reasoning(text)
    if not answer:
        return Invalid.UNCLOSED_REASONING if answer is None else Invalid.EMPTY
    if not _NUMBER.fullmatch(answer):
        return Invalid.NOT_A_NUMBER
    value = float(answer)
    return value if math.isfinite(value) else Invalid.NOT_FINITE


def parse_sample(text: str | Invalid, support: tuple[float, float], integer: bool) -> float | Invalid:
    """Parse an answer and check it against the law's support, both ends inside; a reason passes through. To an integer
    law "3.0" is a valid answer, "3.5" is not."""
    value = text if isinstance(text, Invalid) else parse_number(text)
    if isinstance(value, Invalid):
        return value
    if integer and value != math.floor(value):
        return Invalid.NOT_AN_INTEGER
    if not support[0] <= value <= support[1]:
        return Invalid.OUT_OF_SUPPORT
    return value
