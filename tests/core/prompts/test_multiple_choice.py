"""The multiple-choice prompt against the paper's text, and both parsers against cases written by hand."""

import hashlib

import pytest

from pipeline.core.prompts.multiple_choice import (
    MCQ_PROMPT,
    McqFailure,
    ParsedQuestion,
    mcq_prompts,
    parse_mcq,
    parse_mcq_released,
    parse_mcq_tolerant,
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
    assert parse_mcq_tolerant(text) == parsed


def both(text, reason):
    return text, reason, reason


# What strict makes of a text, and what tolerant makes of it: a reason, or a letter.
CASES = [
    both("", McqFailure.EMPTY),
    both(" \n\u2003", McqFailure.EMPTY),
    both(f"<think>{GOOD}</think>", McqFailure.EMPTY),
    both(f"<think>{GOOD}", McqFailure.UNCLOSED_REASONING),
    both("I cannot help.", McqFailure.MISSING_QUESTION),
    both(GOOD.replace("Question: ", ""), McqFailure.MISSING_QUESTION),
    both(f"{GOOD}\n\n{GOOD}", McqFailure.DUPLICATE_QUESTION),
    both(GOOD.replace("C. Kidney\n", ""), McqFailure.MISSING_OPTION),
    both(GOOD.replace("C. Kidney", "B. Kidney"), McqFailure.MISSING_OPTION),
    both(GOOD.replace("D. Spleen", "C. Lung\nD. Spleen"), McqFailure.DUPLICATE_OPTION),
    both(GOOD.replace("D. Spleen", "D. Spleen\nE. Lung"), McqFailure.EXTRA_OPTION),
    both(GOOD.split("Correct")[0], McqFailure.MISSING_ANSWER),
    both(GOOD + "\nCorrect Answer: B", McqFailure.DUPLICATE_ANSWER),
    both(GOOD.replace("B. Pancreas\nC. Kidney", "C. Kidney\nB. Pancreas"), McqFailure.FIELD_ORDER),
    both("Correct Answer: B\n" + GOOD.replace("Correct Answer: B\n", ""), McqFailure.FIELD_ORDER),
    both(GOOD.replace("Kidney", ""), McqFailure.EMPTY_FIELD),
    both(GOOD.replace("Which organ makes insulin?", ""), McqFailure.EMPTY_FIELD),
    (GOOD.replace("Kidney", "Kidney\nor nephron"), McqFailure.MALFORMED_OPTION, "B"),
    (GOOD.replace("Kidney", "\nKidney"), McqFailure.MALFORMED_OPTION, "B"),
    both(GOOD.replace("Answer: B", "Answer: [A/B/C/D]"), McqFailure.MALFORMED_ANSWER),
    both(GOOD.replace("Answer: B", "Answer:"), McqFailure.MALFORMED_ANSWER),
    both(GOOD.replace("Answer: B", "Answer: E"), McqFailure.MALFORMED_ANSWER),
    # Of several faults the first in the order of McqFailure is the reason.
    both(GOOD.replace("C. Kidney\n", "").replace("Answer: B", "Answer: X"), McqFailure.MISSING_OPTION),
    # Formats that only the tolerant parser reads.
    (GOOD.replace("\n", "\n  "), McqFailure.MISSING_OPTION, "B"),
    (GOOD.replace("Question", "**Question**"), McqFailure.MISSING_QUESTION, "B"),
    (GOOD.replace("Question:", "### Question 12\n"), McqFailure.MISSING_QUESTION, "B"),
    (GOOD.replace("Question:", "QUESTION："), McqFailure.MISSING_QUESTION, "B"),
    (GOOD.replace("Correct Answer", "Answer"), McqFailure.MISSING_ANSWER, "B"),
    (GOOD.replace("Correct Answer", "correct answer"), McqFailure.MISSING_ANSWER, "B"),
    (GOOD.replace("Correct Answer: B", "**Correct Answer: B**"), McqFailure.MISSING_ANSWER, "B"),
    (GOOD.replace("Correct Answer: B", "## Correct answer\n\n**B.** Pancreas"), McqFailure.MISSING_ANSWER, "B"),
    ("\n".join(f"**{line}**" for line in GOOD.splitlines()), McqFailure.MISSING_QUESTION, "B"),
    (GOOD.replace(". ", ") "), McqFailure.MISSING_OPTION, "B"),
    (GOOD.replace("A. ", "(A) ").replace("B. ", "[B] ").replace("C. ", "- C: "), McqFailure.MISSING_OPTION, "B"),
    (GOOD.replace("A. ", "Option A: "), McqFailure.MISSING_OPTION, "B"),
    (GOOD.replace("A. ", "Ａ．").replace("Answer: B", "Answer: Ｂ"), McqFailure.MISSING_OPTION, "B"),
    (GOOD + "\nA. is wrong.\nC. is wrong.", McqFailure.DUPLICATE_OPTION, "B"),
]


@pytest.mark.parametrize(("text", "strict", "tolerant"), CASES)
def test_reason_or_letter(text, strict, tolerant):
    assert parse_mcq(text) is strict
    found = parse_mcq_tolerant(text)
    if isinstance(tolerant, McqFailure):
        assert found is tolerant
    else:
        assert isinstance(found, ParsedQuestion) and found.answer == tolerant


# What the released code's rules make of a text, as its parser gives it.
RELEASED_CASES = [
    (GOOD, "B"),
    (GOOD.replace("\n", "\n\n  "), "B"),
    (GOOD.replace("A. ", "A."), "B"),
    ("Correct Answer: B\n" + GOOD.replace("Correct Answer: B\n", ""), "B"),
    (GOOD.removesuffix("\nExplanation: Beta cells."), McqFailure.MISSING_EXPLANATION),
    (GOOD + "\nExplanation: Again.", McqFailure.DUPLICATE_EXPLANATION),
    (f"Here is one.\n{GOOD}", McqFailure.UNEXPECTED_LINE),
    (GOOD.replace("Which", "\nWhich"), McqFailure.UNEXPECTED_LINE),
    (GOOD + "\nI hope this helps.", McqFailure.UNEXPECTED_LINE),
    (GOOD.replace("D. Spleen", "D. Spleen\nE. Lung"), McqFailure.UNEXPECTED_LINE),
    (GOOD + "\nA. is wrong.", McqFailure.DUPLICATE_OPTION),
    (GOOD.replace("Kidney", ""), McqFailure.EMPTY_FIELD),
    (GOOD.replace("Answer: B", "Answer: [B]"), McqFailure.MALFORMED_ANSWER),
    (GOOD.replace("Answer: B", "Answer:"), McqFailure.MALFORMED_ANSWER),
    (GOOD.replace("Correct Answer", "Answer"), McqFailure.MISSING_ANSWER),
    (f"<think>{GOOD}", McqFailure.UNCLOSED_REASONING),
    ("", McqFailure.EMPTY),
]


@pytest.mark.parametrize(("text", "expected"), RELEASED_CASES)
def test_the_released_codes_rules(text, expected):
    found = parse_mcq_released(text)
    assert (found if isinstance(found, McqFailure) else found.answer) == expected


def test_every_reason_has_a_case():
    assert {case[1] for case in CASES + RELEASED_CASES} - {"B"} == set(McqFailure)


ACCEPTED_VALUES = (
    *("C.", "C)", "(C)", "[C]", "**C**", "c", "(c)", "Option C", "option (C)", "C. Kidney", "C) Kidney", "C: Kidney"),
    *("**C.** Kidney", "**C. Kidney**", "C - Kidney", "C (Kidney)", "C. A kidney and a ureter", "`C`"),
)
REFUSED_VALUES = (
    *("A/C", "A, C", "A and C", "A or C", "A) and C)", "(A) or (C)", "A & C", "A C", "A. C", "A - C", "Kidney"),
    *("Cat", "C2", "All of them", "a kidney", "F", "C Kidney", "-", "**", "None", "Optional"),
)


@pytest.mark.parametrize("value", [*ACCEPTED_VALUES, *REFUSED_VALUES])
def test_answer_values(value):
    text = GOOD.replace("Answer: B", f"Answer: {value}")
    assert parse_mcq(text) is McqFailure.MALFORMED_ANSWER
    found = parse_mcq_tolerant(text)
    if value in ACCEPTED_VALUES:
        assert isinstance(found, ParsedQuestion) and found.answer == "C"
    else:
        assert found is McqFailure.MALFORMED_ANSWER


def test_tolerant_contents_have_no_emphasis_around_them():
    text = (
        "**Question:** *Which* organ?\n\n**A)** Liver **\n- **B)** Pancreas\nin the\nabdomen\n(C) CYP2D6*4\n\n"
        "D) -5 mEq\n\n**Answer:** B"
    )
    options = ("Liver", "Pancreas\nin the\nabdomen", "CYP2D6*4", "-5 mEq")
    assert parse_mcq_tolerant(text) == ParsedQuestion("Which* organ?", options, "B")
