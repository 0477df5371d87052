"""The multiple-choice prompt against the paper's text, and the parsers against cases written by hand."""

import hashlib

import pytest

from pipeline.core.prompts.multiple_choice import (
    MCQ_PROMPT,
    McqFailure,
    ParsedQuestion,
    mcq_prompts,
    parse_mcq,
    parse_mcq_released,
)

# Of Appendix C.4 as published, on one line.
PAPER_SHA256 = "727bf82ac122935a"

GOOD = """\
Question: Which organ makes insulin?
A. Liver
B. Pancreas
C. Kidney
D. Spleen
Correct Answer: B
Explanation: Beta cells."""
PARSED = ParsedQuestion("Which organ makes insulin?", ("Liver", "Pancreas", "Kidney", "Spleen"), "B")


def test_prompt_is_the_papers():
    assert hashlib.sha256(" ".join(MCQ_PROMPT.split()).encode()).hexdigest().startswith(PAPER_SHA256)
    (prompt,) = mcq_prompts()
    assert prompt.text == MCQ_PROMPT and prompt.split == "mcq"
    assert prompt.prompt_id == "mcq-" + hashlib.sha256(MCQ_PROMPT.encode()).hexdigest()[:10]


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        (GOOD, PARSED),
        (GOOD.removesuffix("\nExplanation: Beta cells."), PARSED),
        (f"<think>\nA. Not this\nCorrect Answer: C\n</think>\n\n{GOOD}\n", PARSED),
        (f"Here is one.\n\n{GOOD}\n\nI hope this helps.", PARSED),
        (GOOD.replace("\n", "\n\n"), PARSED),
        (GOOD.replace("\n", "\r\n"), PARSED),
        (GOOD.replace("Correct Answer: B", "Correct Answer:B  "), PARSED),
        (
            GOOD.replace("Which", "\nA patient asks.\n\nWhich"),
            ParsedQuestion("A patient asks.\n\nWhich organ makes insulin?", PARSED.options, "B"),
        ),
        # "E." is an option only right behind options.
        (
            GOOD.replace("Which", "E. coli grows.\nWhich"),
            ParsedQuestion("E. coli grows.\nWhich organ makes insulin?", PARSED.options, "B"),
        ),
    ],
)
def test_strict_accepts(text, parsed):
    assert parse_mcq(text) == parsed


# What strict makes of a text.
CASES = [
    ("", McqFailure.EMPTY),
    (" \n\u2003", McqFailure.EMPTY),
    (f"<think>{GOOD}</think>", McqFailure.EMPTY),
    (f"<think>{GOOD}", McqFailure.UNCLOSED_REASONING),
    ("I cannot help.", McqFailure.MISSING_QUESTION),
    (f"{GOOD}\n\n{GOOD}", McqFailure.DUPLICATE_QUESTION),
    (GOOD.replace("C. Kidney\n", ""), McqFailure.MISSING_OPTION),
    (GOOD.replace("D. Spleen", "C. Lung\nD. Spleen"), McqFailure.DUPLICATE_OPTION),
    (GOOD.replace("D. Spleen", "D. Spleen\nE. Lung"), McqFailure.EXTRA_OPTION),
    (GOOD.split("Correct")[0], McqFailure.MISSING_ANSWER),
    (GOOD + "\nCorrect Answer: B", McqFailure.DUPLICATE_ANSWER),
    (GOOD.replace("B. Pancreas\nC. Kidney", "C. Kidney\nB. Pancreas"), McqFailure.FIELD_ORDER),
    (GOOD.replace("Kidney", ""), McqFailure.EMPTY_FIELD),
    (GOOD.replace("Which organ makes insulin?", ""), McqFailure.EMPTY_FIELD),
    (GOOD.replace("Kidney", "Kidney\nor nephron"), McqFailure.MALFORMED_OPTION),
    *((GOOD.replace("Answer: B", f"Answer: {value}"), McqFailure.MALFORMED_ANSWER) for value in ("[B]", "B.", "b", "")),
    # Of several faults the first in the order of McqFailure is the reason.
    (GOOD.replace("C. Kidney\n", "").replace("Answer: B", "Answer: X"), McqFailure.MISSING_OPTION),
]


@pytest.mark.parametrize(("text", "reason"), CASES)
def test_reasons(text, reason):
    assert parse_mcq(text) is reason


# What the released code's rules make of a text, as its parser gives it.
RELEASED_CASES = [
    (GOOD, "B"),
    (GOOD.replace("\n", "\n\n  "), "B"),
    (GOOD.replace("A. ", "A."), "B"),
    ("Correct Answer: B\n" + GOOD.replace("Correct Answer: B\n", ""), "B"),
    (GOOD.removesuffix("\nExplanation: Beta cells."), McqFailure.MISSING_EXPLANATION),
    (GOOD + "\nExplanation: Again.", McqFailure.DUPLICATE_EXPLANATION),
    (f"Here is one.\n{GOOD}", McqFailure.UNEXPECTED_LINE),
    (GOOD.replace("D. Spleen", "D. Spleen\nE. Lung"), McqFailure.UNEXPECTED_LINE),
    (GOOD + "\nA. is wrong.", McqFailure.DUPLICATE_OPTION),
    (GOOD.replace("Kidney", ""), McqFailure.EMPTY_FIELD),
    (GOOD.replace("Answer: B", "Answer: [B]"), McqFailure.MALFORMED_ANSWER),
    (f"<think>{GOOD}", McqFailure.UNCLOSED_REASONING),
]


@pytest.mark.parametrize(("text", "expected"), RELEASED_CASES)
def test_the_released_codes_rules(text, expected):
    found = parse_mcq_released(text)
    assert (found if isinstance(found, McqFailure) else found.answer) == expected
