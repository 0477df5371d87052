"""The section ``dag`` of params.yaml: what dvc.yaml iterates over.

DVC's templates cannot look one table up in another and know no conditions, so the joins are made here, and
what is switched off has an empty table: a ``foreach`` over nothing has no stages.
"""

from typing import Any

from pipeline.config.evaluation import AXES, PackedBaselineConfig
from pipeline.config.params import CONDITIONS, METHODS, Params


def _baselines(params: Params) -> dict[str, dict[str, Any]]:
    """Pairs of model and baseline on the axes that have baselines, with what each depends on."""
    root = params.artifacts
    pairs: dict[str, dict[str, Any]] = {"structured": {}, "open": {}}
    for name, model in params.models.items():
        for baseline in params.generate.enabled_baselines:
            report = f"{root}/models/{name}.json"
            tries = f"{root}/tries/{model.tokenizer}/eval"
            constrained = baseline == "constrained"
            pair = {"model": name, "condition": baseline, "weights": tries if constrained else report}
            settings = getattr(params.generate, baseline)
            if isinstance(settings, PackedBaselineConfig):
                pair["answers_per_request"] = settings.answers_per_request
            constraint = f"--constraint {tries}" if constrained else ""
            pairs["structured"][f"{name}-{baseline}"] = {**pair, "constraint": constraint}
            if not constrained:
                pairs["open"][f"{name}-{baseline}"] = pair
    return {axis: table if axis in params.axes else {} for axis, table in pairs.items()}


def _conditions(params: Params) -> dict[str, dict[str, str]]:
    """Pairs of model and condition, with the weights that each depends on."""
    root = params.artifacts
    pairs = {}
    for name, model in params.models.items():
        for condition in CONDITIONS:
            weights = (
                f"{root}/models/{name}.json"
                if condition == "base"
                else f"{root}/adapters/{name}/{condition}/adapter_model.safetensors"
            )
            pairs[f"{name}-{condition}"] = {
                "model": name,
                "condition": condition,
                "tokenizer": model.tokenizer,
                "weights": weights,
            }
    return pairs


def _tries(params: Params, sources: dict[str, str]) -> dict[str, dict[str, str]]:
    """Tries by tokenizer and space: the soft method trains on its own, structured sampling is scored on another."""
    tries: dict[str, dict[str, str]] = {}
    for name, model in params.models.items():
        for space in ("soft", "eval") if "structured" in params.axes else ("soft",):
            tries.setdefault(
                f"{model.tokenizer}-{space}",
                {"tokenizer": model.tokenizer, "space": space, "model": name, "source": sources[space]},
            )
    return tries


def dag_section(params: Params) -> dict[str, Any]:
    """The tables: axes, output spaces, models, tries by tokenizer and space, model and condition pairs by axis."""
    root = params.artifacts
    # Training targets without bins follow from the laws in the prompt table: no output space is written.
    binned = [space for space in METHODS if getattr(params.discretize, space).max_bins is not None]
    sources = {
        space: f"{root}/output_spaces/{space}.parquet"
        if space in (*binned, "eval")
        else f"{root}/prompts/train.parquet"
        for space in (*METHODS, "eval")
    }
    models = {
        # What the model's stages depend on: the checkpoint itself, or what names it on the hub.
        name: {
            "source": model.checkpoint if model.is_local else f"conf/model/{name}.yaml",
            "tokenizer": model.tokenizer,
        }
        for name, model in params.models.items()
    }
    novelty, baselines, conditions = params.prompts.novelty, _baselines(params), _conditions(params)
    return {
        # For stages that exist once, for one axis: its name, or nothing.
        "axes": {axis: [axis] if axis in params.axes else [] for axis in AXES},
        "binned_spaces": binned,
        "hard_source": sources["hard"],
        # A data set of the hub is named by the parameters alone.
        "novelty_source": novelty.source if novelty.is_local else "conf/prompts",
        "retention_source": params.retention.source if params.retention.is_local else "conf/retention",
        # A pickle is named by its SHA-256 in the parameters; where it is missing, the stage says what to do.
        "irt_source": "conf/retention" if params.retention.irt_is_pickle else params.retention.irt_artifact,
        "paloma_source": params.paloma.source if params.paloma.is_local else "conf/paloma",
        "models": models,
        "tries": _tries(params, sources),
        # One table for all axes: params.yaml writes it once and refers to it.
        "conditions": {axis: conditions if axis in params.axes else {} for axis in AXES},
        "structured_baselines": baselines["structured"],
        "open_baselines": baselines["open"],
    }
