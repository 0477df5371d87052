"""Every parser is a total function: any text in, a result of its type out; and what was written is read back."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.core.prompts.multiple_choice import LETTERS, McqFailure, ParsedQuestion, parse_mcq, parse_mcq_released
from pipeline.core.prompts.number_answers import Invalid, parse_number
from pipeline.core.prompts.protocols import AnswerProtocol
from pipeline.core.prompts.text_answers import normalise_answer

pytestmark = pytest.mark.slow


def _is_question(result):
    if isinstance(result, McqFailure):
        return True
    return all(text.strip() for text in (result.question, *result.options)) and result.answer in LETTERS


PARSERS = {
    "parse_number": (parse_number, lambda result: isinstance(result, Invalid) or math.isfinite(result)),
    "parse_mcq": (parse_mcq, _is_question),
    "parse_mcq_released": (parse_mcq_released, _is_question),
    "normalise_answer": (normalise_answer, lambda result: bool(result) and result == " ".join(result.split())),
}
for _channel in (None, "final"):
    PARSERS[f"ssot {_channel}"] = (AnswerProtocol("ssot", _channel).answer, lambda result: isinstance(result, str))

PIECES = (
    *("<think>", "</think>", "<answer>", "</answer>", "<|channel|>", "<|message|>", "<|return|>", "final", "analysis"),
    *("Question:", "A.", "B. x", "C)", "(D)", "**", "Correct Answer:", "Answer: B", "Explanation:", "\n", "\r\n"),
    *(" ", "\u2028", "\u3000", "３", "１．５", "Ｂ", "3", "-", ".5", "e9", "1e999", "| 0.5", "50%", "| -1", '"'),
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


@pytest.mark.parametrize(
    "unit",
    ["<think>", "<answer>3</answer>", "<|channel|>final<|message|>", "A. x\n", "Question:\n", "9", " ", "|", "1e"],
)
def test_a_quarter_of_a_million_characters(unit):
    """Which a backtracking parser would not finish."""
    for name, (parse, is_result) in PARSERS.items():
        assert is_result(parse(unit * (250_000 // len(unit)))), name


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


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["{!r}", "{:.17e}", "{:+.17E}"]))
def test_a_formatted_number_is_read_back(value, form):
    assert parse_number(f"<think>{value}?</think>\n{form.format(value)}\n") == value
