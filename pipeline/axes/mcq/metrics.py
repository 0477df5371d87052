"""The metrics of multiple-choice questions."""

from functools import partial

from pipeline.axes.metric import PAPER, Metric

_mcq = partial(
    Metric, axis="mcq", source=f"{PAPER}, Section 4.2", aggregate="over all questions", decimals=3, undefined="value"
)

METRICS = (
    _mcq(
        name="mcq_parse_rate",
        title="Parse rate",
        definition="Share of generations that the parser accepts as a question.",
        unit="share",
        direction="higher",
        n="generations",
        function="pipeline.axes.mcq.multiple_choice:generation_rows",
        headline=1,
    ),
    _mcq(
        name="mcq_total_variation",
        title="Answer position, total variation",
        definition="Total variation of the right answer's position from uniform over A to D; undefined when nothing "
        "parses. The floor is exact.",
        formula_text="1/2 sum over A to D of |share - 1/4|",
        unit="probability",
        direction="lower",
        n="questions that parse",
        function="pipeline.axes.mcq.multiple_choice:total_variation",
        column="TV",
        headline=2,
    ),
)
