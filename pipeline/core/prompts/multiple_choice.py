"""The multiple-choice request and its parsers (arXiv:2605.11845, Section 4.2, Appendix C.4).

The strict parser accepts the requested format and nothing else; the released code's counts something else as that
format. The tolerant one also reads what chat models write instead, so that a model which ignores the format can be told
from one which prefers a position. All are total functions, and take time linear in the text.
"""

import hashlib
import re
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
"""The request of Appendix C.4. The published text has lost its line breaks; these are ours."""


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
    """A question that a generation states: its text, the options in the order A, B, C, D, and the answer's letter."""

    question: str
    options: tuple[str, str, str, str]
    answer: str


QUESTION, ANSWER, EXPLANATION, FIFTH = "Question", "Correct Answer", "Explanation", "E"

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


def _reply(text: str) -> str | McqFailure:
    answer = strip_reasoning(text)
    if answer is None:
        return McqFailure.UNCLOSED_REASONING
    return answer or McqFailure.EMPTY


def _miscounted(names: list[str | None]) -> McqFailure | None:
    """Which field is missing or there too often; the explanation is free."""
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


def _parse(
    text: str, label: _Label, letter: Callable[[list[str]], str | None], emphasis: str, multiline_options: bool
) -> ParsedQuestion | McqFailure:
    """Find the fields by ``label``, read the answer's lines with ``letter``, and strip ``emphasis`` off contents."""
    # What stands before the first label belongs to no field.
    fields = [_Field("")]
    for line in text.splitlines():
        found = label(line, fields[-1])
        if found is not None:
            fields.append(_Field(found[0]))
        fields[-1].append(line if found is None else found[1])
    fields = [field for field in fields[1:] if field.name != EXPLANATION]
    lines, names = {field.name: field.lines for field in fields}, [field.name for field in fields]
    if failure := _miscounted(names):
        return failure
    if names != [QUESTION, *LETTERS, ANSWER]:
        return McqFailure.FIELD_ORDER
    question, *options = ("\n".join(lines[name]).strip().strip(emphasis) for name in (QUESTION, *LETTERS))
    if not (question and all(options)):
        return McqFailure.EMPTY_FIELD
    if not multiline_options and any(line.strip() for name in LETTERS for line in lines[name][1:]):
        return McqFailure.MALFORMED_OPTION
    answer = letter(lines[ANSWER])
    return McqFailure.MALFORMED_ANSWER if answer is None else ParsedQuestion(question, tuple(options), answer)


_STRICT_LABEL = re.compile(rf"({QUESTION}|{ANSWER}|{EXPLANATION}):|([A-E])\.(?=\s|\Z)")


def _strict_label(line: str, before: _Field) -> tuple[str, str] | None:
    found = _STRICT_LABEL.match(line)
    if found is None or (found[2] == FIFTH and before.name not in LETTERS):
        return None
    return found[1] or found[2], line[found.end() :]


def _strict_letter(lines: list[str]) -> str | None:
    value = lines[0].strip()
    return value if value in LETTERS else None


def parse_mcq(text: str) -> ParsedQuestion | McqFailure:
    """Parse a generation in the requested format, as the paper does: a missing, duplicated or malformed field fails.

    Behind any reasoning trace, "Question:", "A.", "B.", "C.", "D." and "Correct Answer:" each start exactly one line,
    without indentation and in this order, white space after the dot. The question may take several lines, an option
    takes one, and the answer is one letter ("[B]" is malformed). The explanation is optional, and so is text before the
    question and after the answer that starts no line with a label. "E." right behind an option is a fifth option.
    """
    reply = _reply(text)
    return reply if isinstance(reply, McqFailure) else _parse(reply, _strict_label, _strict_letter, "", False)


_RELEASED_LABEL = re.compile(rf"({QUESTION}|{ANSWER}|{EXPLANATION}):|([A-D])\.")


def parse_mcq_released(text: str) -> ParsedQuestion | McqFailure:
    """Parse a generation by the rules of the paper's released code (github.com/chandar-lab/calibration-finetuning).

    Unlike ``parse_mcq``, an explanation is required and every line must be a field, so a question of several lines and
    any remark fail; indentation, no white space behind an option's dot and another order of the fields are allowed.
    """
    reply = _reply(text)
    if isinstance(reply, McqFailure):
        return reply
    lines = [line.strip() for line in reply.splitlines() if line.strip()]
    labels = [_RELEASED_LABEL.match(line) for line in lines]
    names = [label and (label[1] or label[2]) for label in labels]
    if failure := _miscounted(names):
        return failure
    if EXPLANATION not in names:
        return McqFailure.MISSING_EXPLANATION
    if names.count(EXPLANATION) > 1:
        return McqFailure.DUPLICATE_EXPLANATION
    if None in names:
        return McqFailure.UNEXPECTED_LINE
    ends = [label.end() for label in labels if label]
    contents = {name: line[end:].strip() for name, line, end in zip(names, lines, ends, strict=True)}
    if contents[ANSWER] and not all(contents.values()):
        return McqFailure.EMPTY_FIELD
    if contents[ANSWER] not in LETTERS:
        return McqFailure.MALFORMED_ANSWER
    return ParsedQuestion(contents[QUESTION], tuple(contents[letter] for letter in LETTERS), contents[ANSWER])


_CLOSING = ".):]"
_DASHES = "-–—"
_LISTS = "/,&+;|"
_TOLERANT_LABEL = re.compile(
    rf"(question)[{_MARKUP}#0-9]*(?::|\Z)"
    rf"|(correct answer|correct option|correct choice|answer)[{_MARKUP}]*(?::|\Z)"
    rf"|(explanation|rationale)[{_MARKUP}]*(?::|\Z)",
    re.IGNORECASE | re.ASCII,
)
_TOLERANT_OPTION = re.compile(rf"(?:(?i:option)[{_MARKUP}]*)?(?:[(\[][{_MARKUP}]*)?([A-E])[{_MARKUP}]*[.):\]]")
_FULL_WIDTH = {0xFF01 + offset: 0x21 + offset for offset in range(94)} | {0x3000: 0x20}
"""Full-width forms of the printable ASCII characters, and the ideographic space."""


def _tolerant_label(line: str, before: _Field) -> tuple[str, str] | None:
    head = line.strip().lstrip(_LEADING)
    if found := _TOLERANT_LABEL.match(head):
        return (QUESTION, ANSWER, EXPLANATION)[found.lastindex - 1], head[found.end() :]
    # An explanation may discuss the options, and an answer may stand below its label.
    if before.name == EXPLANATION or (before.name == ANSWER and before.blank):
        return None
    found = _TOLERANT_OPTION.match(head)
    if found is None or (found[1] == FIFTH and before.name not in LETTERS):
        return None
    return found[1], head[found.end() :]


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
    """Parse a generation in the requested format or in one that means the same; contents come without emphasis.

    Beyond what ``parse_mcq`` accepts: labels may be indented, in Markdown, in any case, and of full width; "Question"
    may have a number; the answer's label may be "Answer", "Correct option" or "Correct choice", and a label alone on
    its line needs no colon; options may be labelled "A)", "A:", "(A)", "[A]" or "Option A:" and take several lines; the
    answer may be "(B)", "[B]", "b", "B)", "Option B", or a letter and the option's text ("B. text", "B - text", "B
    (text)"), also on the line after its label. Behind an explanation's label (also "Rationale") options are not looked
    for. Still there must be one question, four options in order and one answer with one letter: "A/B" is malformed.
    """
    parsed = parse_mcq(text)
    if isinstance(parsed, ParsedQuestion) or parsed in (McqFailure.UNCLOSED_REASONING, McqFailure.EMPTY):
        return parsed
    answer = (strip_reasoning(text) or "").translate(_FULL_WIDTH)
    return _parse(answer, _tolerant_label, _tolerant_letter, _MARKUP + "\n", multiline_options=True)
