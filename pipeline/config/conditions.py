"""Conditions: the base checkpoint, its adapters, and baselines that ask or decode the base checkpoint otherwise."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pipeline.config.evaluation import BASELINES, SAMPLED_AS
from pipeline.config.params import BASE
from pipeline.core.prompts.protocols import AnswerProtocol

if TYPE_CHECKING:
    from pathlib import Path

    from pipeline.config.evaluation import GenerateConfig
    from pipeline.config.params import Params


def has_adapter(condition: str) -> bool:
    """Whether the condition is a trained adapter; the baselines are ways to ask the base checkpoint."""
    return condition != BASE and condition not in BASELINES


def adapter_directory(condition: str, weights: "Path") -> "Path | None":
    """Directory of the condition's adapter, by what the condition adds to the checkpoint; None where that is none."""
    return weights.parent if has_adapter(condition) else None


def generation_settings(params: "Params", axis: str, condition: str) -> "GenerateConfig":
    """Sampling settings of a condition on an axis: a baseline has its own, the others the axis's (SAMPLED_AS)."""
    return getattr(params.generate, condition if condition in BASELINES else SAMPLED_AS.get(axis, axis))


def decoding_settings(settings: "GenerateConfig") -> dict[str, dict[str, Any]]:
    """Further decoding settings by name, each temperature, top_p and top_k; none but where questions are answered."""
    return {name: asdict(decoding) for name, decoding in getattr(settings, "settings", {}).items()}


def answer_protocol(params: "Params", model: str, condition: str) -> AnswerProtocol:
    """How the condition asks the model, and finds the answers in its replies."""
    answers = getattr(params.generate, condition).answers_per_request if condition in BASELINES else 1
    return AnswerProtocol(condition, answers, params.models[model].chat.reasoning.answer_channel)
