"""Every parser is a total function: any text in, a result of its type out; and what was written is read back.

Texts are arbitrary code points, lone surrogates among them, pieces of the formats in any order,
and a million characters of kinds that a backtracking parser would not finish.
"""

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.core.language.novelty import word_dice
from pipeline.core.prompts.multiple_choice import (
    LETTERS,
    McqFailure,
    ParsedQuestion,
    parse_mcq,
    parse_mcq_released,
)
from pipeline.core.prompts.number_answers import Invalid, parse_number
from pipeline.core.prompts.protocols import AnswerProtocol
from pipeline.core.prompts.text_answers import normalise_answer, strip_quotes

pytestmark = pytest.mark.slow

PROTOCOLS = (
    *(AnswerProtocol("ssot", answer_channel=channel) for channel in (None, "final")),
    *(AnswerProtocol("batch", 7), AnswerProtocol("verbalized", 5)),
)


def _is_number(result: Any) -> bool:
    return isinstance(result, Invalid) or (isinstance(result, float) and math.isfinite(result))


def _is_question(result: Any) -> bool:
    if isinstance(result, McqFailure):
        return True
    contents = (result.question, *result.options)
    return len(contents) == 5 and all(text.strip() for text in contents) and result.answer in LETTERS


def _is_normalised(result: Any) -> bool:
    if isinstance(result, Invalid):
        return True
    # A fixed point, unless a second pair of quotes is left.
    again = normalise_answer(result) == result or strip_quotes(result) != result
    return bool(result) and result == " ".join(result.split()) and again


def _are_answers(protocol: AnswerProtocol) -> Callable[[Any], bool]:
    size = protocol.answers_per_request if protocol.condition == "batch" else 1
    return lambda result: len(result) == size and all(isinstance(answer, str) for answer in result)


PARSERS: dict[str, tuple[Callable[[str], Any], Callable[[Any], bool]]] = {
    "parse_number": (parse_number, _is_number),
    "parse_mcq": (parse_mcq, _is_question),
    "parse_mcq_released": (parse_mcq_released, _is_question),
    "normalise_answer": (normalise_answer, _is_normalised),
    "word_dice": (lambda text: word_dice(text, text[::-1]), lambda result: 0 <= result <= 1),
    **{
        f"answers of {protocol.condition} {truncated} {protocol.answer_channel}": (
            lambda text, protocol=protocol, truncated=truncated: protocol.answers(text, 11, truncated),
            _are_answers(protocol),
        )
        for protocol in PROTOCOLS
        for truncated in (False, True)
    },
}

PIECES = (
    *("<think>", "</think>", "<answer>", "</answer>", "<|channel|>", "<|message|>", "<|return|>", "final"),
    *("analysis", "Question:", "A.", "B. x", "C)", "(D)", "**", "Correct Answer:", "Answer: B", "Explanation:", "\n"),
    *(
        "\r\n",
        " ",
        "\u2028",
        "\u3000",
        "３",
        "１．５",
        "Ｂ",
        "3",
        "-",
        ".5",
        "e9",
        "1e999",
        "| 0.5",
        "50%",
        "| -1",
        '"',
    ),
    *("“", "\x00", "\ud83d", "\ude00", "\ud83d\ude00", "😀", "e\u0301", "\u202e", "İ", "ß", "²", "٣"),
)

# Surrogates are so few of all code points that they are asked for by name.
ANY_TEXT = st.text(st.one_of(st.characters(), st.characters(categories=["Cs"])))
FORMAT_LIKE = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)


@pytest.mark.parametrize("name", PARSERS)
@given(text=st.one_of(ANY_TEXT, FORMAT_LIKE, st.tuples(FORMAT_LIKE, ANY_TEXT, FORMAT_LIKE).map("".join)))
def test_any_text(name, text):
    parse, is_result = PARSERS[name]
    assert is_result(parse(text))


SIZE = 250_000
AWKWARD = (
    *("<think>", "</think>", "<answer>", "<answer>3</answer>", "<|channel|>final<|message|>", "A.", "A. x\n"),
    *("Question:\n", "Answer\n\n", "**A**", "9", "９", ".", "e", " ", "\n", "x\n", "x | 1\n", "|", '"'),
    *("\ud83d", "1e"),
)


@pytest.mark.parametrize("unit", AWKWARD, ids=ascii)
def test_a_quarter_of_a_million_characters(unit):
    text = unit * (SIZE // len(unit))
    for name, (parse, is_result) in PARSERS.items():
        assert is_result(parse(text)), name


# What no line break and no reasoning trace is in, and no white space around.
LINE = (
    st.text(st.characters(exclude_categories=("Cc", "Zl", "Zp")))
    .map(str.strip)
    .filter(lambda text: text and "think>" not in text)
)
QUESTION = st.builds(
    ParsedQuestion, question=LINE, options=st.tuples(LINE, LINE, LINE, LINE), answer=st.sampled_from(LETTERS)
)


@given(QUESTION, LINE, st.sampled_from(["", "<think>A. no</think>\n", "Certainly!\n\n"]))
def test_a_formatted_question_is_read_back(question, explanation, head):
    options = "\n".join(f"{letter}. {option}" for letter, option in zip(LETTERS, question.options, strict=True))
    text = f"{head}Question: {question.question}\n{options}\nCorrect Answer: {question.answer}"
    for tail in ("", f"\nExplanation: {explanation}"):
        assert parse_mcq(text + tail) == question


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["{!r}", "{:.17e}", "{:+.17E}", "{:.400f}"]))
def test_a_formatted_number_is_read_back(value, form):
    text = form.format(value)
    assert parse_number(text) == float(text)
    assert parse_number(f"<think>{value}?</think>\n{text}\n") == float(text)
    if form != "{:.400f}":
        assert parse_number(text) == value


PLAIN = LINE.filter(lambda text: not any(mark in text for mark in ("answer>", "<|", "|")))


@given(st.lists(PLAIN, min_size=7, max_size=9), st.integers(0, 2**63 - 1))
def test_answers_are_read_back_from_every_protocol(answers, seed):
    first = answers[0]
    tagged = f"<think>{first}</think><seed>q#7</seed>\n<answer> {first}\n</answer> Done."
    assert AnswerProtocol("ssot").answers(tagged, seed) == [first]
    channels = f"<|channel|>analysis<|message|>x<|end|><|start|>assistant<|channel|>final<|message|>{first}<|return|>"
    assert AnswerProtocol("ssot", answer_channel="final").answers(channels, seed) == [first]
    assert AnswerProtocol("batch", 7).answers("\n".join(answers), seed) == answers[:7]
    listing = "\n".join(f"{answer} | {weight}" for weight, answer in enumerate(answers))
    (drawn,) = AnswerProtocol("verbalized", 7).answers(listing, seed)
    assert drawn in answers[1:]
    assert AnswerProtocol("base").answers(first, seed) == [first]
