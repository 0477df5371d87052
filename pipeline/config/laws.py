"""The schema of a law's file: what a model is to sample from, and how it is asked (docs/your_own_law.md)."""

from dataclasses import field
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StrictBool, StrictFloat, StrictInt, model_validator
from pydantic.dataclasses import dataclass

from pipeline.config.evaluation import STRICT, PositiveInt
from pipeline.core.prompts.choices import CHANCES

Number = StrictInt | StrictFloat
Texts = Annotated[list[str], Field(min_length=1)]


@dataclass(frozen=True, config=STRICT)
class TemplatesConfig:
    """Requests, with the law's fields in braces."""

    train: Texts
    test: list[str] = field(default_factory=list)
    """Paraphrases that are only evaluated: has the model learned the law, or the sentence?"""


def _none_or_two(words: list[str]) -> list[str]:
    if len(words) == 1:
        raise ValueError("one word is no choice; give none or at least two")
    return words


def _held_apart(parts: Any) -> Any:
    if both := sorted(set(parts.train) & set(parts.test)):
        raise ValueError(f"{both[0]!r} is both trained on and held out")
    return parts


Chance = Literal[tuple(CHANCES)]


@dataclass(frozen=True, config=STRICT)
class WordsConfig:
    """Names of options, and those that are only evaluated, none or at least two."""

    train: Annotated[list[str], Field(min_length=2)]
    test: Annotated[list[str], AfterValidator(_none_or_two)] = field(default_factory=list)
    _apart = model_validator(mode="after")(_held_apart)


@dataclass(frozen=True, config=STRICT)
class ChancesConfig:
    """Ways to state a chance, and those that are only evaluated."""

    train: Annotated[list[Chance], Field(min_length=1)]
    test: list[Chance] = field(default_factory=list)
    _apart = model_validator(mode="after")(_held_apart)


@dataclass(frozen=True, config=STRICT)
class ChoiceLawConfig:
    """Random choices between options, made of templates and words: each request has options, chances and a number of
    draws of its own (pipeline.core.prompts.choices has the fields of templates)."""

    kind: Literal["choice"]
    templates: TemplatesConfig
    words: WordsConfig
    chances: ChancesConfig
    requests_per_template: PositiveInt  # that are trained on
    test_requests: PositiveInt  # of each split
    max_options: Annotated[StrictInt, Field(ge=2, le=20)] = 6
    only_words: StrictBool = False  # whether options are the words alone, without numbers and letters of the code's own
    seed: Annotated[StrictInt, Field(ge=0)] = 0


@dataclass(frozen=True, config=STRICT)
class ScipyLawConfig:
    """Laws of one distribution of scipy.stats, one for each combination of parameters."""

    kind: Literal["scipy"]
    templates: TemplatesConfig
    distribution: str
    parameters: dict[str, Number | Annotated[list[Number], Field(min_length=1)]]
    held_out: dict[str, list[Number]] = field(default_factory=dict)
    """Further values by parameter, which no prompt that is trained on has."""


@dataclass(frozen=True, config=STRICT)
class CategoricalLawConfig:
    """A law over strings, written out by probabilities that sum to 1."""

    kind: Literal["categorical"]
    templates: TemplatesConfig
    probabilities: Annotated[dict[str, Number], Field(min_length=1)]
    spellings: dict[str, Texts] = field(default_factory=dict)
    """Strings that count as the same class, by its name, and share its probability."""


@dataclass(frozen=True, config=STRICT)
class TableLawConfig:
    """A law that a table's rows have: over the values of a column, one for each value of the fields."""

    kind: Literal["categorical", "empirical", "conditional"]
    templates: TemplatesConfig
    table: str  # a file .csv beside the law's own
    column: str
    weight: str | None = None  # column of counts, or of probabilities where it is named probability; null counts rows
    fields: list[str] = field(default_factory=list)
    """Columns that templates name; conditional laws need at least one, others have none."""
    held_out: dict[str, list[str | Number]] = field(default_factory=dict)
    """Values by field whose laws are known from the table and not trained on."""
    decimals: Annotated[StrictInt, Field(ge=0, le=9)] | None = None
    """Digits behind the point of a column of numbers; null takes as many as the column has."""
    smoothing: Literal["none", "kernel"] = "none"  # numbers as they are, or a kernel density of them
    spellings: dict[str, Texts] = field(default_factory=dict)
