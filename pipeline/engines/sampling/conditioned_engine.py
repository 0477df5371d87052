"""Open the engine that params.yaml names on a model under a condition."""

from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.artifacts.model_report import model_revision
from pipeline.config.conditions import adapter_directory, generation_settings, has_adapter
from pipeline.config.params import Params
from pipeline.engines.loading.conditioned_model import open_model, opened_once
from pipeline.errors import ConfigError

if TYPE_CHECKING:
    from pipeline.engines.sampling.text_engine import TextEngine


def check_engine(config: Params, condition: str) -> None:
    """Raise ConfigError where the engine does not have the condition; to be called before anything is loaded."""
    if condition == "constrained" and config.engine.kind != "transformers":
        raise ConfigError(
            f"engine.kind: {config.engine.kind} cannot restrict decoding to a trie, which the condition constrained "
            "needs; use transformers for it, or disable generate.constrained"
        )


def open_engine(
    config: Params, model: str, condition: str, report: Path, weights: Path, probe: str, axis: str = "structured"
) -> "TextEngine":
    """Open ``config.engine`` on a model under a condition (base, a method, or a baseline). Raises PipelineError.

    ``weights`` is the file of the condition's adapter, which must show on the request ``probe``, or anything else.
    """
    from pipeline.engines.loading.chat import request_encoder
    from pipeline.engines.loading.model import load_tokenizer
    from pipeline.engines.sampling.text_engine import checkpoint_stop_ids

    check_engine(config, condition)
    checkpoint, adapter = config.models[model], adapter_directory(condition, weights)
    if config.engine.kind == "transformers":
        from pipeline.engines.sampling.transformers_engine import TransformersEngine

        settings = generation_settings(config, axis, condition)
        opened = open_model(checkpoint, report, adapter, probe)
        return TransformersEngine(opened.model, opened.tokenizer, opened.stop_ids, settings.batch_size)
    revision = model_revision(report)
    tokenizer = load_tokenizer(checkpoint, revision)
    stops = checkpoint_stop_ids(checkpoint, tokenizer, revision)
    probe_ids = request_encoder(tokenizer, checkpoint)(probe)
    if config.engine.kind == "vllm":
        from pipeline.engines.sampling.vllm_engine import open_vllm

        settings = config.engine.vllm
        return opened_once(
            ("vllm", checkpoint.checkpoint, revision, adapter, repr(settings)),
            lambda: open_vllm(checkpoint, settings, revision, tokenizer, stops, adapter, probe_ids),
        )
    from pipeline.engines.sampling.openai_engine import open_openai

    served = condition if has_adapter(condition) else "base"
    return open_openai(config.engine.openai, model, served, tokenizer, stops, probe_ids)
