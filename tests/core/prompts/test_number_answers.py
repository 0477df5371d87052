"""The parser is a total function: any text in, a number or one reason out."""

import math

import pytest

from pipeline.core.prompts.number_answers import Invalid, parse_number, parse_sample

REAL = (-math.inf, math.inf)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3.14159", 3.14159),
        ("  -2\n", -2.0),
        ("+.5", 0.5),
        ("7.", 7.0),
        ("1e-3", 0.001),
        ("-1.5E+2", -150.0),
        ("<think>\nmaybe 3?\n</think>\n\n4.2", 4.2),
        ("no opening</think> 8", 8.0),
        ("<think>a</think><think>b</think>9", 9.0),
    ],
)
def test_valid(text, value):
    assert parse_sample(text, REAL, integer=False) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", Invalid.EMPTY),
        (" \n\t", Invalid.EMPTY),
        ("<think>x</think>", Invalid.EMPTY),
        ("<think> 3", Invalid.UNCLOSED_REASONING),
        ("<think>x</think> <think> 3", Invalid.UNCLOSED_REASONING),
        ("3.1 is my number", Invalid.NOT_A_NUMBER),
        ("1,000", Invalid.NOT_A_NUMBER),
        ("3 4", Invalid.NOT_A_NUMBER),
        ("nan", Invalid.NOT_A_NUMBER),
        ("inf", Invalid.NOT_A_NUMBER),
        ("1_000", Invalid.NOT_A_NUMBER),
        ("٣", Invalid.NOT_A_NUMBER),
        ("１２", Invalid.NOT_A_NUMBER),
        ("−3", Invalid.NOT_A_NUMBER),
        ("0x1F", Invalid.NOT_A_NUMBER),
        (".", Invalid.NOT_A_NUMBER),
        ("1e999", Invalid.NOT_FINITE),
        ("9" * 1_000_000, Invalid.NOT_FINITE),
    ],
)
def test_invalid(text, reason):
    assert parse_number(text) is reason


def test_support_and_integers():
    assert parse_sample("3.0", (0, 5), integer=True) == 3
    assert parse_sample("3.5", (0, 5), integer=True) is Invalid.NOT_AN_INTEGER
    assert parse_sample("6", (0, 5), integer=True) is Invalid.OUT_OF_SUPPORT
    assert parse_sample("5", (0, 5), integer=False) == 5
    assert parse_sample("-0.00001", (0, math.inf), integer=False) is Invalid.OUT_OF_SUPPORT
