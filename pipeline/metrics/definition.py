"""What a metric's definition consists of; the definitions are in ``pipeline.metrics.definitions``."""

from dataclasses import dataclass
from typing import Literal

Direction = Literal["lower", "higher", "neither"]

PAPER = "arXiv:2605.11845"
OURS = "this project"

FAMILY_MEDIAN = (
    "mean over the finite values within each family, median across families; undefined where a family has none"
)
PROMPT_MEAN = "mean over prompts"


@dataclass(frozen=True)
class Definition:
    """How a metric in ``metrics.csv`` is defined, in words that need no code.

    Attributes:
        title: Short name for headings and axes.
        definition: One sentence or two.
        formula_text: The formula in plain text.
        unit: Unit of the value; "1" for a number without one.
        direction: Which way is better; "neither" where neither end is.
        n: What the column ``n`` counts.
        source: Where the definition is from.
        aggregate: How the values of prompts, items or documents become the reported number.
    """

    title: str
    definition: str
    formula_text: str
    unit: str
    direction: Direction
    n: str
    source: str
    aggregate: str
