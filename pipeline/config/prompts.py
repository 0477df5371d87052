"""The section ``prompts`` of ``params.yaml``: which prompts exist, and where those of others come from."""

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from pipeline.config.evaluation import STRICT, PositiveInt
from pipeline.config.questions import PerturbationsConfig, QuestionsConfig
from pipeline.core.laws.families import FAMILIES

FamilyId = Literal[tuple(FAMILIES)]
Selection = Literal["selected", "full"]


@dataclass(frozen=True, config=STRICT)
class NoveltyPromptsConfig:
    """Where the prompts of NoveltyBench come from."""

    source: str
    """A JSON-lines file (fields id, prompt, split and, where known, category) or a data set of the hub."""
    revision: str | None
    """Commit of the hub's data set; null takes the current one, which build_novelty_prompts records."""
    splits: Annotated[list[str], Field(min_length=1)]
    """Splits to keep; the benchmark has "curated" (100 prompts) and "wildchat" (1,000)."""
    max_prompts_per_split: PositiveInt | None
    """Keep the first so many prompts of each split; null keeps all."""


@dataclass(frozen=True, config=STRICT)
class OpenPromptsConfig:
    """Where the open-ended requests come from."""

    source: str | None
    """A file with one request per line (.txt), JSON lines with the field prompt and, where known, category (.jsonl), or
    one JSON list of texts (.json); null takes our own list of 102."""


@dataclass(frozen=True, config=STRICT)
class InstructionsConfig:
    """General instructions, whose replies by the base checkpoint anchor retention-aware fine-tuning."""

    source: str
    """A JSON-lines file (fields prompt and, where known, id and kind) or a data set of the hub with the same fields."""
    revision: str | None
    """Commit of the hub's data set; null takes the current one, which build_instructions records."""
    split: str | None
    """Split of a data set; null for a file."""
    max_prompts: PositiveInt | None
    """Keep the first so many instructions; null keeps all."""
    held_out_share: Annotated[float, Field(strict=True, gt=0, lt=1)]
    """Share of each kind that no training sees (a seeded draw, at least one of two): the divergence from the base
    checkpoint is measured on it."""


@dataclass(frozen=True, config=STRICT)
class PromptsConfig:
    """Which prompts exist."""

    families: list[FamilyId] | None
    """Family ids to keep; null keeps all 30."""
    train_prompts_per_family: PositiveInt | None
    """At most this many training prompts of each family (a seeded draw); null keeps all 1,988."""
    unseen_selection: Selection | Literal["interpolated"]
    """"selected" (the paper's 24) or "full" (591), all of them outside the ranges that are trained on, or
    "interpolated": 72 inside, between the points of the training grids."""
    ood_selection: Selection
    """"selected" (the paper's 18) or "full" (92)."""
    open: OpenPromptsConfig
    novelty: NoveltyPromptsConfig
    instructions: InstructionsConfig
    questions: QuestionsConfig | None = None
    perturbations: PerturbationsConfig | None = None
    """Which QUESTION_AXES and the axis inv_entropy need; none in parameters that were recorded before them."""
