"""The metrics of multiple-choice questions."""

from collections.abc import Iterator
from functools import partial

from pipeline.axes.mcq.multiple_choice import PARSERS
from pipeline.axes.metric import OURS, PAPER, Metric
from pipeline.core.prompts.multiple_choice import LETTERS

SECTION = f"{PAPER}, Section 4.2"
MCQ = "pipeline.axes.mcq.multiple_choice"


_mcq = partial(Metric, axis="mcq", aggregate="over all questions", decimals=3, undefined="value")


def _parsed_by(parser: str, suffix: str) -> Iterator[Metric]:
    """What one parser, "strict" or "tolerant", finds; ``suffix`` ends its metrics' names."""
    strict = parser == "strict"
    note, column_note = ("", "") if strict else (f" ({parser} parser)", f", {parser}")
    found = partial(_mcq, source=SECTION if strict else OURS)
    of_parsed = partial(found, n="questions that parse")
    yield found(
        name=f"mcq_parse_rate{suffix}",
        title=f"Parse rate{note}",
        definition=f"Share of generations that the {parser} parser accepts as a question.",
        formula_text="parsed / generations",
        unit="share",
        direction="higher",
        n="generations",
        function=f"{MCQ}:statistics",
        column=f"Parse rate{column_note}",
        headline=1 if strict else 0,
    )
    yield of_parsed(
        name=f"mcq_total_variation{suffix}",
        title=f"Answer position, total variation{note}",
        definition="Total variation of the right answer's position from uniform over A to D; undefined when nothing "
        "parses. The floor is exact.",
        formula_text="1/2 sum over A to D of |share - 1/4|",
        unit="probability",
        direction="lower",
        function=f"{MCQ}:total_variation",
        column=f"TV{column_note}",
        headline=2 if strict else 0,
    )
    for letter in LETTERS if strict else ():
        yield of_parsed(
            name=f"mcq_share_{letter.lower()}",
            title=f"Share of {letter}",
            definition=f"Share of parsed questions with the answer {letter}; balanced at 1/4.",
            formula_text=f"questions with answer {letter} / questions that parse",
            unit="share",
            direction="neither",
            function=f"{MCQ}:statistics",
            column=f"{letter} is correct",
        )


METRICS = tuple(metric for suffix, parser in PARSERS.items() for metric in _parsed_by(parser, suffix))
