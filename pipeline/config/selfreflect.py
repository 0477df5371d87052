"""The section ``selfreflect``: how summaries of a model's answers are judged."""

from pydantic.dataclasses import dataclass

from pipeline.config.evaluation import STRICT, PositiveFloat, PositiveInt
from pipeline.config.models import ModelConfig


@dataclass(frozen=True, config=STRICT)
class SelfReflectConfig:
    """A judge reads a summary of a model's answers, or the answers themselves, and guesses words of further answers."""

    judge: ModelConfig | None
    """The judge, a causal language model (``+model@selfreflect.judge=NAME``); null takes the base checkpoint of the
    model that is evaluated."""
    test_answers: PositiveInt
    """The last so many answers of the default decoding setting are those whose words are guessed; the others are the
    list that the judge reads."""
    temperature: PositiveFloat
    """What the judge's log-probabilities are divided by before its laws are compared."""
    tokens_per_pass: PositiveInt
    """Tokens per forward pass of the judge at most, padding included. Results differ by rounding only."""
