"""Conditions: the base checkpoint, its adapters, and baselines that ask or decode the base checkpoint otherwise."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pipeline.axes import AXES as EVALUATED
from pipeline.config.evaluation import BASELINES, SAMPLED_AS, GenerateConfig, StyleConfig
from pipeline.config.params import BASE, Params
from pipeline.config.training import TrainConfig
from pipeline.core.prompts.protocols import AnswerProtocol


def has_adapter(condition: str) -> bool:
    """Whether the condition is a trained adapter."""
    return condition not in (BASE, *BASELINES)


def conditions_on(params: Params, axis: str) -> tuple[str, ...]:
    """What a model is evaluated under on an axis."""
    return (*params.conditions, *baselines_on(params, axis))


def baselines_on(params: Params, axis: str) -> tuple[str, ...]:
    return tuple(name for name in EVALUATED[axis].baselines if getattr(params.generate, name).enabled)


def adapter_directory(condition: str, weights: Path) -> Path | None:
    """Directory of the condition's adapter, by what it adds to the checkpoint (``weights`` of a row of dag.yaml)."""
    return weights.parent if has_adapter(condition) else None


def generation_settings(params: Params, axis: str, condition: str) -> GenerateConfig:
    """Sampling settings of a condition on an axis: a baseline has its own, the others the axis's (SAMPLED_AS)."""
    return getattr(params.generate, condition if condition in BASELINES else SAMPLED_AS.get(axis, axis))


def decoding_settings(settings: GenerateConfig) -> dict[str, dict[str, Any]]:
    """Further decoding settings of questions by name, each temperature, top_p and top_k."""
    return {name: asdict(decoding) for name, decoding in getattr(settings, "settings", {}).items()}


def answer_styles(settings: GenerateConfig) -> dict[str, StyleConfig]:
    """Further styles of asking questions by name."""
    return getattr(settings, "styles", {})


def answer_protocol(params: Params, model: str, condition: str) -> AnswerProtocol:
    """How the condition asks the model, and finds the answers in its replies."""
    return AnswerProtocol(condition, params.models[model].chat.reasoning.answer_channel)


class _Overridden:
    """A section of which some values are replaced. What is not read is not asked for, so that a view can stand in."""

    def __init__(self, section: Any, values: Mapping[str, Any]):
        self._section, self._values = section, values

    def __getattr__(self, name: str) -> Any:
        value = self._values.get(name)
        if isinstance(value, Mapping):
            return _Overridden(getattr(self._section, name), value)
        return value if name in self._values else getattr(self._section, name)


def training_settings(params: Params, method: str) -> TrainConfig:
    """The section ``train`` as a method has it."""
    return _Overridden(params.train, params.methods[method].train)  # type: ignore[return-value]
