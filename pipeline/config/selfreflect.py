"""The section ``selfreflect``: how summaries of a model's answers are judged."""

from typing import TYPE_CHECKING

from pydantic.dataclasses import dataclass

from pipeline.config.evaluation import STRICT, PositiveFloat, PositiveInt
from pipeline.config.models import ModelConfig

if TYPE_CHECKING:
    from pipeline.config.params import Params


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


def selfreflect_problem(params: "Params") -> str | None:
    """What the axis "selfreflect" lacks; None where nothing, or where it is off."""
    if "selfreflect" not in params.axes:
        return None
    for key, section in (("selfreflect", params.selfreflect), ("generate.selfreflect", params.generate.selfreflect)):
        if section is None:
            return f"{key}: a value is missing, which the axis selfreflect needs"
    drawn, tested = params.generate.questions.num_samples, params.selfreflect.test_answers
    if tested >= drawn:
        return (
            f"selfreflect.test_answers: got {tested}; must be less than generate.questions.num_samples ({drawn}), "
            "whose other answers are the list that the judge reads"
        )
    return None
