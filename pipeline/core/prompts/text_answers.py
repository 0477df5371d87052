"""From generated text to a comparable answer, or to the reason why there is none; any text in, no exception out."""

from pipeline.core.prompts.number_answers import Invalid, strip_reasoning

QUOTE_PAIRS = (('"', '"'), ("'", "'"), ("“", "”"), ("‘", "’"), ("„", "“"), ("«", "»"))
"""Opening and closing marks: ASCII, English, German and French. The paper names quotes alone, so markup stays."""


def strip_quotes(text: str) -> str:
    """``text`` without one pair of quotes around the whole of it, and without the white space inside them."""
    if len(text) >= 2 and (text[0], text[-1]) in QUOTE_PAIRS:
        return text[1:-1].strip()
    return text


def normalise_answer(text: str | Invalid) -> str | Invalid:
    """The paper's normalisation of an open-ended answer (Section 4.2): the first line that is not blank behind the
    reasoning trace, with single spaces and without one pair of quotes; a reason passes through."""
    if isinstance(text, Invalid):
        return text
    answer = strip_reasoning(text)
    if not answer:
        return Invalid.UNCLOSED_REASONING if answer is None else Invalid.EMPTY
    # The text is stripped, so its first line is not blank.
    return strip_quotes(" ".join(answer.splitlines()[0].split())) or Invalid.EMPTY
