"""The section of ``params.yaml`` on questions with people's answers or accepted ones."""

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from pipeline.config.evaluation import STRICT, PositiveInt


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
