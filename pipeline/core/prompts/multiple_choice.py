"""The multiple-choice request and its parsers (arXiv:2605.11845, Section 4.2, Appendix C.4).

The strict parser accepts the requested format and nothing else; the released code's counts
something else as that format. The tolerant one also reads the formats that chat models write
instead, so that a model which ignores the format can be told from one which prefers a position.
All read a text line by line, each line once: the time is linear in the text. All are total
functions: any string in, no exception out.
"""

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from pipeline.core.prompts.number_answers import strip_reasoning
from pipeline.core.prompts.text import TextPrompt

LETTERS = ("A", "B", "C", "D")
"""Answer positions, in order."""

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
"""The request of Appendix C.4. The published text has lost its line breaks; these are ours: one
field and one requirement per line. With white space collapsed it is the published text."""


def mcq_prompts() -> list[TextPrompt]:
    """The one request of the axis; its id holds a digest of the text."""
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
    """A question that a generation states.

    Attributes:
        question: The question's text.
        options: The four options in the order A, B, C, D.
        answer: The letter in the correct-answer field, one of LETTERS.
    """

    question: str
    options: tuple[str, str, str, str]
    answer: str


QUESTION, ANSWER, EXPLANATION, FIFTH = "question", "answer", "explanation", "E"


_MARKUP = "*_`~ \t"
_LEADING = _MARKUP + "#>-+•"


class _Field:
    """A label's name and the lines from behind the label to the next label; ``blank`` while they say nothing."""

    def __init__(self, name: str):
        self.name, self.blank = name, True
        self.lines: list[str] = []

    def append(self, line: str) -> None:
        self.lines.append(line)
        self.blank = self.blank and not line.strip().strip(_LEADING)


_Label = Callable[[str, _Field], tuple[str, str] | None]
"""From a line and the field before it to the new field's name and first content, or None."""


def _fields(text: str, label: _Label) -> list[_Field]:
    """The labelled fields of a text; what stands before the first one belongs to none."""
    fields = [_Field("")]
    for line in text.splitlines():
        found = label(line, fields[-1])
        if found is not None:
            fields.append(_Field(found[0]))
        fields[-1].append(line if found is None else found[1])
    return fields[1:]


def _failure_of_labels(fields: list[_Field]) -> McqFailure | None:
    """What is wrong with which fields there are; the explanation is free."""
    names = [field.name for field in fields if field.name != EXPLANATION]
    counts = Counter(names)
    options = [counts[letter] for letter in LETTERS]
    checks = (
        (counts[QUESTION] == 0, McqFailure.MISSING_QUESTION),
        (counts[QUESTION] > 1, McqFailure.DUPLICATE_QUESTION),
        (min(options) == 0, McqFailure.MISSING_OPTION),
        (max(options) > 1, McqFailure.DUPLICATE_OPTION),
        (counts[FIFTH] > 0, McqFailure.EXTRA_OPTION),
        (counts[ANSWER] == 0, McqFailure.MISSING_ANSWER),
        (counts[ANSWER] > 1, McqFailure.DUPLICATE_ANSWER),
        (names != [QUESTION, *LETTERS, ANSWER], McqFailure.FIELD_ORDER),
    )
    return next((failure for failed, failure in checks if failed), None)


def _parse(
    text: str, label: _Label, letter: Callable[[list[str]], str | None], emphasis: str, multiline_options: bool
) -> ParsedQuestion | McqFailure:
    """Find the fields by ``label``, check them, and read the answer's lines with ``letter``.

    ``emphasis`` holds the characters that are stripped off contents beside white space.
    """
    fields = _fields(text, label)
    failure = _failure_of_labels(fields)
    if failure is not None:
        return failure
    lines = {field.name: field.lines for field in fields if field.name != EXPLANATION}
    contents = {name: "\n".join(lines[name]).strip().strip(emphasis) for name in (QUESTION, *LETTERS)}
    if not all(contents.values()):
        return McqFailure.EMPTY_FIELD
    if not multiline_options and any(line.strip() for name in LETTERS for line in lines[name][1:]):
        return McqFailure.MALFORMED_OPTION
    answer = letter(lines[ANSWER])
    if answer is None:
        return McqFailure.MALFORMED_ANSWER
    a, b, c, d = (contents[name] for name in LETTERS)
    return ParsedQuestion(contents[QUESTION], (a, b, c, d), answer)


_STRICT_LABELS = ((QUESTION, "Question:"), (ANSWER, "Correct Answer:"), (EXPLANATION, "Explanation:"))


def _strict_label(line: str, before: _Field) -> tuple[str, str] | None:
    for name, label in _STRICT_LABELS:
        if line.startswith(label):
            return name, line[len(label) :]
    letters = (*LETTERS, FIFTH) if before.name in LETTERS else LETTERS
    if line[:1] in letters and line[1:2] == "." and (len(line) == 2 or line[2].isspace()):
        return line[0], line[2:]
    return None


def _strict_letter(lines: list[str]) -> str | None:
    value = lines[0].strip()
    return value if value in LETTERS else None


def parse_mcq(text: str) -> ParsedQuestion | McqFailure:
    """Parse a generation in the requested format, as the paper does: a missing, duplicated or malformed field fails.

    Behind any reasoning trace, "Question:", "A.", "B.", "C.", "D." and "Correct Answer:" must
    each start exactly one line, without indentation and in this order, white space after the
    dot. The question may take several lines, an option takes one. The answer is one of the
    letters A to D and nothing else on its line; "[B]" is malformed, as the brackets of the
    request mark what is to be filled in. The explanation is optional. Text before the question and
    after the answer is no field and allowed as long as no line of it starts with a label. A line
    "E." right behind an option is a fifth option.
    """
    answer = strip_reasoning(text)
    if answer is None:
        return McqFailure.UNCLOSED_REASONING
    if not answer:
        return McqFailure.EMPTY
    return _parse(answer, _strict_label, _strict_letter, "", multiline_options=False)


_RELEASED_LABELS = (*_STRICT_LABELS, *((letter, f"{letter}.") for letter in LETTERS))


def parse_mcq_released(text: str) -> ParsedQuestion | McqFailure:
    """Parse a generation by the rules of the paper's released code (github.com/chandar-lab/calibration-finetuning).

    They differ from ``parse_mcq``: an explanation is required; every line must be a field, so a question of several
    lines and any remark fail; indentation, missing white space behind an option's dot and another order of the fields
    are allowed. As there, each field stands once and is not empty, and the answer is one letter.
    """
    answer = strip_reasoning(text)
    if answer is None:
        return McqFailure.UNCLOSED_REASONING
    if not answer:
        return McqFailure.EMPTY
    lines = [line.strip() for line in answer.splitlines() if line.strip()]
    labels = [next(((n, label) for n, label in _RELEASED_LABELS if line.startswith(label)), None) for line in lines]
    counts = Counter(label[0] for label in labels if label)
    options = [counts[letter] for letter in LETTERS]
    checks = (
        (counts[QUESTION] == 0, McqFailure.MISSING_QUESTION),
        (counts[QUESTION] > 1, McqFailure.DUPLICATE_QUESTION),
        (min(options) == 0, McqFailure.MISSING_OPTION),
        (max(options) > 1, McqFailure.DUPLICATE_OPTION),
        (counts[ANSWER] == 0, McqFailure.MISSING_ANSWER),
        (counts[ANSWER] > 1, McqFailure.DUPLICATE_ANSWER),
        (counts[EXPLANATION] == 0, McqFailure.MISSING_EXPLANATION),
        (counts[EXPLANATION] > 1, McqFailure.DUPLICATE_EXPLANATION),
        (None in labels, McqFailure.UNEXPECTED_LINE),
    )
    for failed, failure in checks:
        if failed:
            return failure
    contents = {label[0]: line[len(label[1]) :].strip() for line, label in zip(lines, labels, strict=True) if label}
    if not all(contents.values()):
        return McqFailure.MALFORMED_ANSWER if not contents[ANSWER] else McqFailure.EMPTY_FIELD
    if contents[ANSWER] not in LETTERS:
        return McqFailure.MALFORMED_ANSWER
    a, b, c, d = (contents[name] for name in LETTERS)
    return ParsedQuestion(contents[QUESTION], (a, b, c, d), contents[ANSWER])


_CLOSING = ".):]"
_DASHES = "-–—"
_LISTS = "/,&+;|"
_TOLERANT_WORDS = (
    (QUESTION, ("question",)),
    (ANSWER, ("correct answer", "correct option", "correct choice", "answer")),
    (EXPLANATION, ("explanation", "rationale")),
)
_FULL_WIDTH = {0xFF01 + offset: 0x21 + offset for offset in range(94)} | {0x3000: 0x20}
"""Full-width forms of the printable ASCII characters, and the ideographic space."""


def _tolerant_label(line: str, before: _Field) -> tuple[str, str] | None:
    head = line.strip().lstrip(_LEADING)
    for name, words in _TOLERANT_WORDS:
        for word in words:
            if head[: len(word)].lower() == word:
                rest = head[len(word) :].lstrip(_MARKUP + "#0123456789" if name == QUESTION else _MARKUP)
                if not rest or rest[0] == ":":
                    return name, rest[1:]
    # An explanation may discuss the options, and an answer may stand below its label.
    if before.name == EXPLANATION or (before.name == ANSWER and before.blank):
        return None
    if head[:6].lower() == "option":
        head = head[6:].lstrip(_MARKUP)
    head = head[1:].lstrip(_MARKUP) if head[:1] in ("(", "[") else head
    rest = head[1:].lstrip(_MARKUP)
    letters = (*LETTERS, FIFTH) if before.name in LETTERS else LETTERS
    if head[:1] in letters and rest and rest[0] in _CLOSING:
        return head[0], rest[1:]
    return None


def _tolerant_letter(lines: list[str]) -> str | None:
    """The one letter at the start of the first line with content; None where several are named."""
    values = (line.strip().strip(_LEADING) for line in lines)
    value = next((value for value in values if value), "")
    if value[:6].lower() == "option":
        value = value[6:]
    head = value.lstrip("([" + _MARKUP)
    letter, rest = head[:1], head[1:]
    if letter.upper() not in LETTERS or rest[:1].isalnum():
        return None
    tail = rest.strip(_MARKUP + _CLOSING + _DASHES + "([")
    if not tail:
        return letter.upper()
    separator = rest.lstrip(_MARKUP)[0]
    lists_more = tail[0] in _LISTS or tail in LETTERS or tail.split(maxsplit=1)[0].lower() in ("and", "or")
    if letter not in LETTERS or separator not in _CLOSING + _DASHES + "(" or lists_more:
        return None
    return letter


def parse_mcq_tolerant(text: str) -> ParsedQuestion | McqFailure:
    """Parse a generation in the requested format or in one that means the same.

    Whatever ``parse_mcq`` accepts is accepted as it is. Beyond that: labels may be indented, in
    Markdown (emphasis, headings, lists, quotes), in any case, and of full width; "Question"
    may have a number; the answer's label may be "Answer", "Correct option" or "Correct choice",
    and a label alone on its line needs no colon; options may be labelled "A)", "A:", "(A)",
    "[A]" or "Option A:" and take several lines; the answer may be "(B)", "[B]", "b", "B)",
    "Option B", or a letter and the option's text ("B. text", "B - text", "B (text)"), also on
    the line after its label. Behind an explanation's label (also "Rationale") options are not
    looked for, as it may discuss them. Still there must be one question, four options in order
    and one answer field with one letter: "A and C" or "A/B" is malformed.

    Contents are returned without surrounding emphasis and with full-width ASCII narrowed.
    """
    parsed = parse_mcq(text)
    if isinstance(parsed, ParsedQuestion) or parsed in (McqFailure.UNCLOSED_REASONING, McqFailure.EMPTY):
        return parsed
    answer = (strip_reasoning(text) or "").translate(_FULL_WIDTH)
    return _parse(answer, _tolerant_label, _tolerant_letter, _MARKUP + "\n", multiline_options=True)
