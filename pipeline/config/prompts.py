"""The section ``prompts`` of ``params.yaml``. A source is a JSON-lines file, or a data set of the hub at a commit."""

from typing import Annotated, Literal

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from pipeline.config.evaluation import STRICT, OpenShare, PositiveInt, Template
from pipeline.core.laws.families import FAMILIES

SYNTHETIC = "data/questions.jsonl"  # scripts/make_questions.py
FamilyId = Literal[tuple(FAMILIES)]


@dataclass(frozen=True, config=STRICT)
class NoveltyPromptsConfig:
    """NoveltyBench's prompts: fields id, prompt, split and, where known, category."""

    source: str
    revision: str | None
    splits: Annotated[list[str], Field(min_length=1)]
    """The benchmark has "curated" (100 prompts) and "wildchat" (1,000)."""
    max_prompts_per_split: PositiveInt | None  # keep the first so many


@dataclass(frozen=True, config=STRICT)
class OpenPromptsConfig:
    """Where the open-ended requests come from."""

    source: str | None
    """JSON lines with the field prompt and, where known, category (.jsonl), or a list of texts (.json); null takes our
    own list of 102."""


@dataclass(frozen=True, config=STRICT)
class InstructionsConfig:
    """General instructions (fields prompt and, where known, id and kind), whose replies by the base checkpoint anchor
    retention-aware fine-tuning.
    """

    source: str
    revision: str | None
    split: str | None
    max_prompts: PositiveInt | None
    held_out_share: OpenShare
    """Share of each kind that no training sees (a seeded draw, at least one of two): the divergence from the base
    checkpoint is measured on it."""


@dataclass(frozen=True, config=STRICT)
class QuestionsConfig:
    """A prompt set with accepted answers, people's answers, or both."""

    source: str
    format: Literal["questions", "protoqa"]  # our own format (docs/questions.md), or ProtoQA's
    revision: str | None
    split: str | None
    max_prompts: PositiveInt | None
    template: Template

    @property
    def synthetic_people(self) -> bool:
        """Whether nobody was asked: people's answers are drawn from laws of our own."""
        return self.source == SYNTHETIC


@dataclass(frozen=True, config=STRICT)
class PerturbationsConfig:
    """Perturbed questions, whose answers Inv-Entropy compares."""

    number: PositiveInt  # at most, of a question; the paper takes 9
    max_questions: PositiveInt | None  # evenly spaced in the prompt set
    templates: list[Template]

    @model_validator(mode="after")
    def _templates_suffice(self) -> "PerturbationsConfig":
        if len(set(self.templates) - {"{prompt}"}) < self.number:
            raise ValueError(
                f"{self.number} perturbations need as many templates that differ from {{prompt}} and from each other, "
                f"got {len(self.templates)} templates"
            )
        return self


@dataclass(frozen=True, config=STRICT)
class PromptsConfig:
    """Which prompts exist; null keeps all."""

    families: list[FamilyId] | None
    train_prompts_per_family: PositiveInt | None  # a seeded draw
    unseen_selection: Literal["selected", "full", "interpolated"]
    """The paper's 24 or all 591 outside the ranges that are trained on, or 72 inside, between points of its grids."""
    ood_selection: Literal["selected", "full"]  # the paper's 18, or all 92
    open: OpenPromptsConfig
    novelty: NoveltyPromptsConfig
    instructions: InstructionsConfig
    questions: QuestionsConfig | None = None
    perturbations: PerturbationsConfig | None = None
    train_parameters: Literal["grid", "fresh"] = "grid"
    """Training prompts from the paper's grids, or with parameters drawn at random between the ends of the grids."""

    @model_validator(mode="after")
    def _fresh_is_counted(self) -> "PromptsConfig":
        if self.train_parameters == "fresh" and self.train_prompts_per_family is None:
            raise ValueError("train_parameters fresh needs a number in train_prompts_per_family, got null")
        return self
