"""Normalisation of answers is total, and does what the paper says in its order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.core.prompts.number_answers import THINK_END, THINK_START, Invalid
from pipeline.core.prompts.text_answers import normalise_answer, strip_quotes

# Any code point, lone surrogates included, and the pieces that the rules are about.
PIECES = st.sampled_from(
    [THINK_START, THINK_END, "\n", "\r\n", "\u2028", "\x1c", " ", "\u3000", "\xa0", '"', "'", "“", "”", "Paris", "１２"]
)
TEXTS = st.lists(st.one_of(PIECES, st.characters(), st.characters(categories=["Cs"]))).map("".join)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Paris", "Paris"),
        ("  New \t York\u3000City \n", "New York City"),
        ("\n \n\nParis\nbecause I like it", "Paris"),
        ("Paris\r\nRome", "Paris"),
        ("Paris\u2028Rome", "Paris"),
        ('"Paris"', "Paris"),
        ("'Paris'", "Paris"),
        ("“New  York”", "New York"),
        ("‘Paris’", "Paris"),
        ("„Paris“", "Paris"),
        ("« Paris »", "Paris"),
        ('""Paris""', '"Paris"'),
        ("\"'Paris'\"", "'Paris'"),
        ("'Paris\"", "'Paris\""),
        ("”Paris“", "”Paris“"),
        ('"Paris', '"Paris'),
        ('"', '"'),
        ("`Paris`", "`Paris`"),
        ("**Paris**", "**Paris**"),
        ('Paris is "nice"', 'Paris is "nice"'),
        ('<think>Rome?\n</think>\n\n"Paris"\n', "Paris"),
        ("no opening</think> Paris", "Paris"),
        ("PARIS", "PARIS"),
        ("Ｐａｒｉｓ１", "Ｐａｒｉｓ１"),
        ("Zoë 🦊", "Zoë 🦊"),
        ("\ud83e", "\ud83e"),
    ],
)
def test_answers(text, answer):
    assert normalise_answer(text) == answer


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", Invalid.EMPTY),
        (" \t\n\x0b\x85\u2029\u3000\xa0", Invalid.EMPTY),
        ('""', Invalid.EMPTY),
        ("“ ”\nParis", Invalid.EMPTY),
        ("<think>Paris</think>", Invalid.EMPTY),
        ("<think>Paris", Invalid.UNCLOSED_REASONING),
        ("<think>a</think>Paris<think>", Invalid.UNCLOSED_REASONING),
        (Invalid.NO_ANSWER, Invalid.NO_ANSWER),
        (Invalid.MISSING_ANSWER, Invalid.MISSING_ANSWER),
    ],
)
def test_failures(text, reason):
    assert normalise_answer(text) is reason


def test_an_answer_that_reads_like_a_reason_is_an_answer():
    assert not isinstance(normalise_answer("empty"), Invalid)


@settings(deadline=None)
@given(TEXTS)
def test_total_and_in_normal_form(text):
    answer = normalise_answer(text)
    if isinstance(answer, Invalid):
        assert answer in (Invalid.EMPTY, Invalid.UNCLOSED_REASONING)
        return
    assert answer and len(answer.splitlines()) == 1
    assert answer == " ".join(answer.split())
    assert THINK_START not in answer and THINK_END not in answer
    # A fixed point, unless a second pair of quotes is left.
    assert (normalise_answer(answer) == answer) == (strip_quotes(answer) == answer)
