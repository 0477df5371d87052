"""From generated text to a comparable answer, or to the reason why there is none; any text in, no exception out."""

from pipeline.core.prompts.number_answers import Invalid, strip_reasoning

QUOTE_PAIRS = (('"', '"'), ("'", "'"), ("“", "”"), ("‘", "’"), ("„", "“"), ("«", "»"))
"""Opening and closing marks: ASCII, English, German and French. The paper names quotes alone, so markup stays."""


def normalise_answer(text: str | Invalid) -> str | Invalid:
    """The paper's normalisation of an open-ended answer (Section 4.2): the first line that is not blank behind the
    reasoning trace, with single spaces and without one pair of quotes; a reason passes through."""
    if isinstance(text, Invalid):
        return text
    answer = strip_reasoning(text)
    if not answer:
        return Invalid.UNCLOSED_REASONING if answer is None else Invalid.EMPTY
    # The text is stripped, so its first line is not blank.
    line = " ".join(answer.splitlines()[0].split())
    if len(line) >= 2 and (line[0], line[-1]) in QUOTE_PAIRS:
        line = line[1:-1].strip()
    return line or Invalid.EMPTY
