"""Which weights are asked for on a command line, and opening them: a condition of params.yaml, or any checkpoint."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.artifacts.model_report import model_revision
from pipeline.config.models import ChatConfig, ModelConfig, ReasoningConfig
from pipeline.config.params import BASE, Params
from pipeline.config.retention import is_local_path
from pipeline.errors import ArtifactError, ConfigError, ModelError, did_you_mean, first_line

if TYPE_CHECKING:
    from pipeline.engines.loading.conditioned_model import ConditionedModel


@dataclass(frozen=True)
class Weights:
    """Weights that were asked for, not yet loaded: ``model`` is a name in params.yaml, or a checkpoint; ``condition``
    is "base", a method, or the directory of an adapter."""

    model: str
    condition: str
    config: ModelConfig
    adapter: Path | None = None

    @property
    def name(self) -> str:
        """What a server calls them, e.g. "embedded" (the base checkpoint) or "embedded-soft"."""
        return f"{self.model}-{Path(self.condition).name}" if self.adapter else self.model


def find_weights(
    params: Params, model: str | None, condition: str | None, adapter: Path | None, source: str = "params.yaml"
) -> Weights:
    """The weights that the options name, not loaded. Raises ConfigError, ModelError, and ArtifactError if untrained."""
    known = ", ".join(params.models)
    if model is None:
        if len(params.models) > 1:
            raise ConfigError(f"--model: {source} has several, give one of {known}")
        (model,) = params.models
    if condition is not None and adapter is not None:
        raise ConfigError(f"--adapter {adapter} and --condition {condition} name two adapters; give one of them")
    if model in params.models:
        config, report = params.models[model], Path(params.artifacts) / "models" / f"{model}.json"
        if report.exists():
            config = replace(config, revision=model_revision(report))
    elif is_local_path(model) or model.count("/") == 1:
        if condition not in (None, BASE):
            raise ConfigError(f"--condition: {condition} belongs to a model of {source}, {known}; give --adapter DIR")
        config = _checkpoint_config(params, model)
    else:
        near = did_you_mean(model, params.models)
        raise ConfigError(
            f"--model: {source} has no {model!r}; {near}there are {known}, and any checkpoint's directory or OWNER/NAME"
        )
    if adapter is not None:
        return Weights(model, str(adapter), config, adapter)
    if condition in (None, BASE):
        return Weights(model, BASE, config)
    if condition not in params.methods:
        near, known = did_you_mean(condition, params.methods), ", ".join((BASE, *params.methods))
        raise ConfigError(f"--condition: {source} has no {condition!r}; {near}there are {known}")
    trained = Path(params.artifacts) / "adapters" / model / condition
    if not trained.is_dir():
        raise ArtifactError(f"{trained} does not exist: {condition} is not trained yet; `dvc repro` makes it")
    return Weights(model, condition, config, trained)


def _checkpoint_config(params: Params, checkpoint: str) -> ModelConfig:
    """How a checkpoint is loaded and asked: as ``params`` has it, else in its own dtype and chat template."""
    for config in params.models.values():
        if config.checkpoint == checkpoint:
            return config
    import torch
    from transformers import AutoConfig

    try:
        dtype = AutoConfig.from_pretrained(checkpoint, trust_remote_code=False).dtype
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot read the configuration of {checkpoint}: {first_line(error)}") from None
    return ModelConfig(
        display_name=checkpoint,
        checkpoint=checkpoint,
        revision=None,
        num_parameters=1,
        tokenizer=checkpoint,
        dtype="float32" if dtype in (None, torch.float32) else "bfloat16",
        attention="sdpa",
        terminator="eos",
        lora_target_modules=["q_proj"],
        chat=ChatConfig({}, "", False, ReasoningConfig({}, "system", None)),
    )


def open_weights(weights: Weights, probe: str) -> "ConditionedModel":
    """Load a checkpoint with its adapter, which must show on the request ``probe``. Raises PipelineError."""
    from pipeline.engines.loading.conditioned_model import open_checkpoint

    return open_checkpoint(weights.config, adapter=weights.adapter, probe=probe)


def context_length(loaded: "ConditionedModel") -> int | None:
    """Most tokens of a request with its answer; None where the checkpoint names no limit."""
    from pipeline.engines.loading.model import causal_lm

    return getattr(causal_lm(loaded.model).config.get_text_config(), "max_position_embeddings", None)
