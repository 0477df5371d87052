"""The multiple-choice request and its parsers (arXiv:2605.11845, Section 4.2, Appendix C.4)."""

import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from pipeline.core.prompts.number_answers import strip_reasoning
from pipeline.core.prompts.text import TextPrompt

LETTERS = ("A", "B", "C", "D")

MCQ_PROMPT = """\
You are a medical education expert who creates high-quality multiple-choice questions for medical students and \
professionals. Please generate a medical multiple-choice question (single answer, 4 options). The question should \
cover medical knowledge and be of moderate difficulty.

Please strictly follow this format:
Question: [Question content]
A. [Option A content]
B. [Option B content]
C. [Option C content]
D. [Option D content]
Correct Answer: [A/B/C/D]
Explanation: [Brief explanation]

Requirements:
(1) The question should have practical medical value.
(2) All four options should be plausible with reasonable distractors.
(3) Only one correct answer.
(4) Output directly without any additional content.
(5) Cover different medical knowledge areas (e.g., internal medicine, surgery, pharmacology, pathology, diagnostics).
(6) The correct answer should be evenly distributed among A, B, C, D options to avoid bias toward any particular \
option."""
"""The published text has lost its line breaks; these are ours."""


def mcq_prompts() -> list[TextPrompt]:
    digest = hashlib.sha256(MCQ_PROMPT.encode()).hexdigest()[:10]
    return [TextPrompt(f"mcq-{digest}", "mcq", "medicine", MCQ_PROMPT)]


class McqFailure(StrEnum):
    """Why a generation is not a question; the first that holds, in this order, is its one reason."""

    UNCLOSED_REASONING = "unclosed_reasoning"
    EMPTY = "empty"
    MISSING_QUESTION = "missing_question"
    DUPLICATE_QUESTION = "duplicate_question"
    MISSING_OPTION = "missing_option"
    DUPLICATE_OPTION = "duplicate_option"
    EXTRA_OPTION = "extra_option"
    MISSING_ANSWER = "missing_answer"
    DUPLICATE_ANSWER = "duplicate_answer"
    FIELD_ORDER = "field_order"
    EMPTY_FIELD = "empty_field"
    MALFORMED_OPTION = "malformed_option"
    MALFORMED_ANSWER = "malformed_answer"
    MISSING_EXPLANATION = "missing_explanation"
    DUPLICATE_EXPLANATION = "duplicate_explanation"
    UNEXPECTED_LINE = "unexpected_line"


@dataclass(frozen=True)
class ParsedQuestion:
    question: str
    options: tuple[str, str, str, str]
    answer: str


QUESTION, ANSWER, EXPLANATION, FIFTH = "Question", "Correct Answer", "Explanation", "E"


def _miscounted(names: list[str | None]) -> McqFailure | None:
    """Which field is missing or there too often, but for the explanation."""
    counts = Counter(names)
    options = [counts[letter] for letter in LETTERS]
    checks = {
        McqFailure.MISSING_QUESTION: counts[QUESTION] == 0,
        McqFailure.DUPLICATE_QUESTION: counts[QUESTION] > 1,
        McqFailure.MISSING_OPTION: min(options) == 0,
        McqFailure.DUPLICATE_OPTION: max(options) > 1,
        McqFailure.EXTRA_OPTION: counts[FIFTH] > 0,
        McqFailure.MISSING_ANSWER: counts[ANSWER] == 0,
        McqFailure.DUPLICATE_ANSWER: counts[ANSWER] > 1,
    }
    return next((failure for failure, failed in checks.items() if failed), None)


_LABEL = re.compile(rf"({QUESTION}|{ANSWER}|{EXPLANATION}):|([A-E])\.(?=\s|\Z)")


def parse_mcq(text: str) -> ParsedQuestion | McqFailure:
    """Parse a generation in the requested format, as the paper does: a missing, duplicated or malformed field fails.
    Behind any reasoning trace, "Question:" to "Correct Answer:" each start exactly one line, in order and without
    indentation, white space after an option's dot. Only the question may take several lines; the explanation and text
    before and after are optional. "E." right behind an option is a fifth option."""
    reply = strip_reasoning(text)
    if not reply:
        return McqFailure.UNCLOSED_REASONING if reply is None else McqFailure.EMPTY
    # Name and lines of each field; what stands before the first label belongs to none.
    fields: list[tuple[str, list[str]]] = [("", [])]
    for line in reply.splitlines():
        found = _LABEL.match(line)
        if found is None or (found[2] == FIFTH and fields[-1][0] not in LETTERS):
            fields[-1][1].append(line)
        else:
            fields.append((found[1] or found[2], [line[found.end() :]]))
    fields = [field for field in fields[1:] if field[0] != EXPLANATION]
    names, lines = [name for name, _ in fields], dict(fields)
    if failure := _miscounted(names):
        return failure
    if names != [QUESTION, *LETTERS, ANSWER]:
        return McqFailure.FIELD_ORDER
    question, *options = ("\n".join(lines[name]).strip() for name in (QUESTION, *LETTERS))
    if not (question and all(options)):
        return McqFailure.EMPTY_FIELD
    if any(line.strip() for name in LETTERS for line in lines[name][1:]):
        return McqFailure.MALFORMED_OPTION
    answer = lines[ANSWER][0].strip()
    return ParsedQuestion(question, tuple(options), answer) if answer in LETTERS else McqFailure.MALFORMED_ANSWER


_RELEASED_LABEL = re.compile(rf"({QUESTION}|{ANSWER}|{EXPLANATION}):|([A-D])\.")


def parse_mcq_released(text: str) -> ParsedQuestion | McqFailure:
    """Parse a generation by the rules of the paper's released code (github.com/chandar-lab/calibration-finetuning):
    unlike ``parse_mcq``, an explanation is required and every line must be a field, but indentation, no white space
    behind an option's dot and another order are allowed."""
    reply = strip_reasoning(text)
    if not reply:
        return McqFailure.UNCLOSED_REASONING if reply is None else McqFailure.EMPTY
    lines = [line.strip() for line in reply.splitlines() if line.strip()]
    labels = [_RELEASED_LABEL.match(line) for line in lines]
    names = [label and (label[1] or label[2]) for label in labels]
    if failure := _miscounted(names):
        return failure
    if names.count(EXPLANATION) != 1:
        return McqFailure.DUPLICATE_EXPLANATION if EXPLANATION in names else McqFailure.MISSING_EXPLANATION
    if None in names:
        return McqFailure.UNEXPECTED_LINE
    ends = [label.end() for label in labels if label]
    contents = {name: line[end:].strip() for name, line, end in zip(names, lines, ends, strict=True)}
    if contents[ANSWER] and not all(contents.values()):
        return McqFailure.EMPTY_FIELD
    if contents[ANSWER] not in LETTERS:
        return McqFailure.MALFORMED_ANSWER
    return ParsedQuestion(contents[QUESTION], tuple(contents[letter] for letter in LETTERS), contents[ANSWER])
