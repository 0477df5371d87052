"""From replies to numbers, texts and answers, or to one reason: by hand."""

import math

import pytest

from pipeline.core.prompts.number_answers import Invalid, parse_number, parse_sample
from pipeline.core.prompts.protocols import AnswerProtocol, channel_answer, tagged_answer
from pipeline.core.prompts.text_answers import normalise_answer

REAL = (-math.inf, math.inf)
HARMONY = "<|channel|>analysis<|message|>seed: xK3 ... so 4.2<|end|><|start|>assistant<|channel|>final<|message|>{}"


def equal(found, expected):
    """A reason is a string as well, and may be an answer's text."""
    return found == expected and isinstance(found, Invalid) == isinstance(expected, Invalid)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3.14159", 3.14159),
        ("  -2\n", -2.0),
        ("+.5", 0.5),
        ("7.", 7.0),
        ("-1.5E+2", -150.0),
        ("<think>\nmaybe 3?\n</think>\n\n4.2", 4.2),
        ("no opening</think> 8", 8.0),
        (" \n\t", Invalid.EMPTY),
        ("<think>x</think>", Invalid.EMPTY),
        ("<think>x</think> <think> 3", Invalid.UNCLOSED_REASONING),
        *((text, Invalid.NOT_A_NUMBER) for text in ("3.1 is my number", "1,000", "nan", "1_000", "٣", "−3", ".")),
        ("1e999", Invalid.NOT_FINITE),
        ("9" * 1_000_000, Invalid.NOT_FINITE),
    ],
)
def test_numbers(text, value):
    assert parse_sample(text, REAL, integer=False) == value
    assert equal(parse_number(text), value)


def test_support_and_integers():
    assert parse_sample("3.0", (0, 5), integer=True) == 3
    assert parse_sample("3.5", (0, 5), integer=True) is Invalid.NOT_AN_INTEGER
    assert parse_sample("6", (0, 5), integer=True) is Invalid.OUT_OF_SUPPORT
    assert parse_sample("5", (0, 5), integer=False) == 5
    assert parse_sample("-0.00001", (0, math.inf), integer=False) is Invalid.OUT_OF_SUPPORT


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("  New \t York\u3000City \n", "New York City"),
        ("\n \n\nParis\nbecause I like it", "Paris"),
        ("Paris\u2028Rome", "Paris"),
        ("“New  York”", "New York"),
        ("« Paris »", "Paris"),
        ('""Paris""', '"Paris"'),
        ("'Paris\"", "'Paris\""),
        ('"', '"'),
        ("**Paris**", "**Paris**"),
        ('<think>Rome?\n</think>\n\n"Paris"\n', "Paris"),
        ("empty", "empty"),
        (" \t\n\x0b\x85\u2029\u3000\xa0", Invalid.EMPTY),
        ("“ ”\nParis", Invalid.EMPTY),
        ("<think>a</think>Paris<think>", Invalid.UNCLOSED_REASONING),
        (Invalid.NO_ANSWER, Invalid.NO_ANSWER),
    ],
)
def test_texts(text, answer):
    assert equal(normalise_answer(text), answer)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<seed>x9</seed> <answer> 3.5\n</answer>", "3.5"),
        ("<think>maybe <answer>1</answer></think><answer>2</answer> done", "2"),
        ("<answer></answer>", ""),
        ("3.5", Invalid.NO_ANSWER),
        ("", Invalid.EMPTY),
        ("<think>so", Invalid.UNCLOSED_REASONING),
        ("<answer>3.5", Invalid.UNCLOSED_ANSWER),
        ("</answer><answer>3", Invalid.UNCLOSED_ANSWER),
        ("<answer>1</answer><answer>2</answer>", Invalid.SEVERAL_ANSWERS),
        ("<answer>1</answer></answer>", Invalid.SEVERAL_ANSWERS),
    ],
)
def test_tagged_answers(text, answer):
    assert equal(tagged_answer(text), answer)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (HARMONY.format("4.2<|return|>"), "4.2"),
        ("<|channel|>final <|constrain|>json<|message|>7<|end|>", "7"),
        ("<|channel|>final", Invalid.NO_ANSWER),
        ("<|channel|>finally<|message|>4.2", Invalid.NO_ANSWER),
        (" ", Invalid.EMPTY),
        (HARMONY.format("1<|end|><|start|>assistant<|channel|>final<|message|>2"), Invalid.SEVERAL_ANSWERS),
    ],
)
def test_channel_answers(text, answer):
    assert equal(channel_answer(text, "final"), answer)


def test_the_task_itself_is_the_same_under_every_protocol():
    for condition in ("base", "soft", "constrained"):
        assert AnswerProtocol(condition).messages("structured", "P") == [{"role": "user", "content": "P"}]
        assert AnswerProtocol(condition).answer("<answer>1</answer>") == "<answer>1</answer>"
    contents = []
    for channel in (None, "final"):
        first, second = AnswerProtocol("ssot", channel).messages("open", "P", "developer")
        assert first["role"] == "developer" and second == {"role": "user", "content": "P"}
        contents.append(first["content"])
    tag, channel = contents
    assert "<answer>" in tag and "<answer>" not in channel and "final channel" in channel
