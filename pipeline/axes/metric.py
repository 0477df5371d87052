"""What there is to say of a metric; each axis has its own in its module ``metrics``."""

from dataclasses import KW_ONLY, dataclass
from typing import Literal

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
    """A metric of ``metrics.csv``: what it is in words that need no code, how tables show it, where it is computed."""

    name: str  # in ``metrics.csv``
    title: str  # for headings and lists
    definition: str  # one sentence or two
    formula_text: str = ""  # where it says more than the definition
    _: KW_ONLY
    unit: str  # "1" for a number without one
    direction: Literal["lower", "higher", "neither"]  # which way is better
    n: str  # what the column ``n`` counts
    source: str  # where the definition is from
    aggregate: str  # how the values of prompts, items or documents become the reported number
    axis: str  # that it is evaluated on; the valid rate is one of open-ended requests, too
    function: str  # MODULE:FUNCTION that computes its values, before they are aggregated
    decimals: int
    undefined: str  # what the column ``undefined`` counts
    column: str = ""  # title of a column of a table, where the title is too long for one
    headline: int = 0  # place among the headline numbers of its axis, from 1; 0 for none of them

    @property
    def column_title(self) -> str:
        """Title of its column in a table."""
        return self.column or self.title
