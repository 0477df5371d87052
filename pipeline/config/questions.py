"""The section of ``params.yaml`` on questions with people's answers or accepted ones."""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from pipeline.config.evaluation import QUESTION_AXES, STRICT, PositiveInt

if TYPE_CHECKING:
    from pipeline.config.params import Params

SYNTHETIC = "data/questions.jsonl"
"""Our own set (scripts/make_questions.py)."""


@dataclass(frozen=True, config=STRICT)
class QuestionsConfig:
    """A prompt set with accepted answers, people's answers, or both."""

    source: str
    """A JSON-lines file or a data set of the hub."""
    format: Literal["questions", "protoqa", "gsm8k", "trivia"]
    """What its rows are: our own format (docs/questions.md), or that of ProtoQA, GSM8K or TriviaQA."""
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


def missing_section(params: "Params") -> str | None:
    """The first section that the axes of questions need and parameters from before them lack; None where none is."""
    sections = {
        "prompts.questions": params.prompts.questions,
        "generate.questions": params.generate.questions,
        "evaluate.partition": params.evaluate.partition,
    }
    asked = not set(QUESTION_AXES).isdisjoint(params.axes)
    return next((key for key, section in sections.items() if asked and section is None), None)
