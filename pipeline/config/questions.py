"""The section of ``params.yaml`` on questions with people's answers or accepted ones."""

from typing import Annotated, Literal

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from pipeline.config.evaluation import STRICT, PositiveInt

SYNTHETIC = "data/questions.jsonl"
"""Our own set (scripts/make_questions.py)."""


@dataclass(frozen=True, config=STRICT)
class QuestionsConfig:
    """A prompt set with accepted answers, people's answers, or both."""

    source: str
    """A JSON-lines file or a data set of the hub."""
    format: Literal["questions", "protoqa"]
    """What its rows are: our own format (docs/questions.md), or ProtoQA's."""
    revision: str | None
    """Commit of the hub's data set; null takes the current one, which build_questions records."""
    split: str | None
    """Split of a data set; null for a file."""
    max_prompts: PositiveInt | None
    """Keep the first so many questions; null keeps all."""
    template: Annotated[str, Field(pattern=r"\{prompt\}")]
    """The request; {prompt} stands for the question."""

    @property
    def synthetic_people(self) -> bool:
        """Whether nobody was asked: counts of people's answers are drawn from laws of our own."""
        return self.source == SYNTHETIC


@dataclass(frozen=True, config=STRICT)
class PerturbationsConfig:
    """Perturbed questions, whose answers Inv-Entropy compares."""

    kind: Literal["templates", "variants"]
    """"templates": the question in each of ``templates``. "variants": the question's own paraphrases."""
    number: PositiveInt
    """Perturbations of a question at most; the paper takes 9."""
    max_questions: PositiveInt | None
    """So many questions, evenly spaced in the prompt set; null takes all."""
    templates: list[Annotated[str, Field(pattern=r"\{prompt\}")]]
    """Requests that mean the same; {prompt} stands for the question."""

    @model_validator(mode="after")
    def _kind_is_described(self) -> "PerturbationsConfig":
        if self.kind == "templates" and len(set(self.templates) - {"{prompt}"}) < self.number:
            raise ValueError(
                f"{self.number} perturbations need as many templates that differ from {{prompt}} and from each other, "
                f"got {len(self.templates)} templates"
            )
        return self
