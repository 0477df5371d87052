"""What there is to say of a metric; the metrics themselves are in the other modules of this package."""

from dataclasses import dataclass
from typing import Literal

Direction = Literal["lower", "higher", "neither"]

PAPER = "arXiv:2605.11845"
OURS = "this project"

FAMILY_MEDIAN = (
    "mean over the finite values within each family, median across families; undefined where a family has none"
)
FAMILY_MEAN = FAMILY_MEDIAN.replace("median across", "mean across")
PROMPT_MEAN = "mean over prompts"
PROMPTS = "prompts with a value"


@dataclass(frozen=True)
class Metric:
    """A metric of ``metrics.csv``: what it is in words that need no code, how tables show it, where it is computed.

    Attributes:
        name: Its name in ``metrics.csv``.
        title: Short name for headings and lists.
        definition: One sentence or two.
        formula_text: The formula in plain text.
        unit: Unit of the value; "1" for a number without one.
        direction: Which way is better; "neither" where neither end is.
        n: What the column ``n`` counts.
        source: Where the definition is from.
        aggregate: How the values of prompts, items or documents become the reported number.
        axis: The axis that it is evaluated on; the valid rate is one of open-ended requests, too.
        function: MODULE:FUNCTION that computes its values, before they are aggregated.
        decimals: Decimals in tables.
        undefined: What the column ``undefined`` counts.
        column: Title of a column of a table, where the title is too long for one; empty where it is not.
        headline: Place among the headline numbers of its axis, from 1; 0 for a metric that is none of them.
    """

    name: str
    title: str
    definition: str
    formula_text: str
    unit: str
    direction: Direction
    n: str
    source: str
    aggregate: str
    axis: str
    function: str
    decimals: int
    undefined: str
    column: str = ""
    headline: int = 0

    @property
    def column_title(self) -> str:
        """Title of its column in a table."""
        return self.column or self.title
