"""Derivations of generated answers: what counts as a step of arithmetic."""

import pytest

from pipeline.axes.retention.answers import has_derivation


@pytest.mark.parametrize(
    "text",
    [
        "16 - 3 - 4 = 9",
        "She eats 3 and bakes 4, so 16-3-4=<<16-3-4=9>>9 are left.\n#### 18",
        "She makes 9 duck eggs x $2.50 each = $22.50",
        "(20 + 1,214) * 3 = 3,702",
        "Half of that is 2/2=1 bolt.",
        "\\(5 \\times 3 = 15\\)",
        "20% * 50 = 10",
        "**5 + 3** = **8**",
        "10 − 12 = −2",
    ],
)
def test_derivations(text):
    assert has_derivation(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "18",
        "The answer is $1,234.",
        "The total = 18",
        "18 = 18",
        "She sells 9 eggs at 2 dollars and so makes 18 dollars.",
        "10-12 boxes are left, which makes 3",
        "2024-05-01",
    ],
)
def test_no_derivation(text):
    assert not has_derivation(text)


def test_a_long_answer_takes_no_time():
    # Nested repetitions must not backtrack: a model may well write such a line.
    assert not has_derivation("1 + " * 5000)
    assert not has_derivation("(" * 2000 + "1 a b " * 2000 + " " * 2000)
