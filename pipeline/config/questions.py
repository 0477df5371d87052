"""The sections of ``params.yaml`` on questions with people's or accepted answers: where from, and how asked."""

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from pipeline.config.evaluation import STRICT, GenerateConfig, PositiveFloat, PositiveInt, Probability

DEFAULT_SETTING = "default"
"""Name of the decoding setting that ``generate.questions`` itself gives."""


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


@dataclass(frozen=True, config=STRICT)
class DecodingConfig:
    """One way to draw answers from the softmax."""

    temperature: PositiveFloat
    """Softmax temperature."""
    top_p: Probability
    """Nucleus mass; 1 samples from the whole distribution."""
    top_k: PositiveInt | None
    """Most probable tokens to draw from; null for all."""


@dataclass(frozen=True, config=STRICT)
class QuestionsGenerateConfig(GenerateConfig):
    """Sampling of answers to questions, under one decoding setting or several."""

    settings: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")], DecodingConfig]
    """Further decoding settings by name, each with as many samples; the setting "default" is the section's own."""
