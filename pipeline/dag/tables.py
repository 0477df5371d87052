"""The tables whose rows dvc.yaml repeats its stages over: the content of dag.yaml, but for those of parts."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pipeline.config.conditions import baselines_on, has_adapter
from pipeline.config.evaluation import AXES, QUESTION_AXES
from pipeline.config.params import BASE, Params
from pipeline.config.retention import irt_is_pickle, is_local_path
from pipeline.config.training import TARGETS
from pipeline.dag.declaration import Row, Stage

Table = dict[str, Row]
PARTS = "parts"  # key of the tables that parts of stages are repeated over


def _pairs(params: Params, conditions: Iterable[str]) -> Table:
    """Pairs of model and condition; ``weights`` is what this adds to the checkpoint, else the model's report."""
    root = params.artifacts
    conditions = list(dict.fromkeys(conditions))
    pairs: Table = {}
    for name, model in params.models.items():
        report, replies = f"{root}/models/{name}.json", f"{root}/generations/anchors/{name}/{BASE}.parquet"
        for condition in conditions:
            weights = f"{root}/tries/{model.tokenizer}/eval" if condition == "constrained" else report
            if has_adapter(condition):
                weights = f"{root}/adapters/{name}/{condition}/adapter_model.safetensors"
            pairs[f"{name}-{condition}"] = {
                "model": name,
                "condition": condition,
                "tokenizer": model.tokenizer,
                "weights": weights,
                "base_replies": replies if "anchors" in params.axes else report,
            }
    return pairs


def _adapters(params: Params, sources: dict[str, str]) -> dict[str, Table]:
    """Adapters to train by what they are trained on; a row of "mixed" has its prompts for what it does not train on."""
    root, prompts = params.artifacts, f"{params.artifacts}/prompts/train.parquet"
    trained: dict[str, Table] = {name: {} for name in (*TARGETS, "mixed")}
    for model, settings in params.models.items():
        for method, made in params.methods.items():
            kind = made.targets[0] if made.is_plain else "mixed"
            row = {"model": model, "method": method, "tokenizer": settings.tokenizer}
            if kind == "mixed":
                anchored = made.anchors is not None
                row |= {
                    "first_target": made.targets[0],
                    "last_target": made.targets[-1],
                    "tries": f"{root}/tries/{settings.tokenizer}/soft" if "soft" in made.targets else prompts,
                    "hard_targets": sources["hard"] if "hard" in made.targets else prompts,
                    "instructions": f"{root}/prompts/instructions.parquet" if anchored else prompts,
                    "replies": f"{root}/generations/instructions/{model}/base.parquet" if anchored else prompts,
                }
            # Soft and hard as the paper has them go by the model alone.
            trained[kind][model if made.is_plain and method == kind else f"{model}-{method}"] = row
    return trained


def _source(source: str, settings: str, read: bool = True) -> str:
    """What a stage that reads ``source`` depends on: the path, or the ``settings`` that name it, or switch it off."""
    return source if read and is_local_path(source) else settings


def dag_section(params: Params) -> dict[str, Any]:
    """Tables by name, and files that stages read which depend on the parameters."""
    root, on = params.artifacts, {axis: axis in params.axes for axis in AXES}
    on["laws"] = on["laws"] and bool(params.laws)
    # Training targets without bins follow from the laws in the prompt table: no output space is written.
    binned = [space for space in TARGETS if getattr(params.discretize, space).max_bins is not None]
    sources = dict.fromkeys(TARGETS, f"{root}/prompts/train.parquet")
    sources |= {space: f"{root}/output_spaces/{space}.parquet" for space in (*binned, "eval")}
    # By tokenizer and space: the soft method trains on one, structured sampling is scored on another.
    tries: Table = {}
    for name, model in params.models.items():
        for space in ("soft", "eval"):
            row = {"tokenizer": model.tokenizer, "space": space, "model": name, "source": sources[space]}
            tries.setdefault(f"{model.tokenizer}-{space}", row)
    asked, evaluated = _pairs(params, (BASE, *params.conditions)), _pairs(params, params.conditions)
    baselines = {axis: baselines_on(params, axis) if on[axis] else () for axis in AXES}
    answered, questions = any(on[axis] for axis in QUESTION_AXES), params.prompts.questions
    anchored = any(method.anchors is not None for method in params.methods.values())

    return {
        "spaces": {space: {"space": space} for space in binned},
        "models": {
            name: {
                "model": name,
                "tokenizer": model.tokenizer,
                "source": _source(model.checkpoint, f"conf/model/{name}.yaml"),
            }
            for name, model in params.models.items()
        },
        "tries": tries,
        # The base checkpoint's replies that methods with anchors are trained on.
        "anchored": _pairs(params, (BASE,)) if anchored else {},
        "trained": _adapters(params, sources),
        # DVC runs the whole DAG for a stage without members: one says that it is off.
        "profiled": tries if params.profile_construction else dict([next(iter(tries.items()))]),
        # Divergences on held-out instructions are along base's replies, whatever else is evaluated.
        "generated": asked if on["anchors"] else evaluated,
        "scored": evaluated,
        "baselines": _pairs(params, (name for names in baselines.values() for name in names)),
        # Columns of the files that `dvc plots` draws.
        "plotted": {"training_loss": [*params.methods]},
        PARTS: {
            "axes": {axis: {axis: {"axis": axis}} if on[axis] else {} for axis in AXES},
            "asked": {axis: evaluated if on[axis] else {} for axis in AXES}
            | {"anchors_and_base": asked if on["anchors"] else {}, "questions": evaluated if answered else {}},
            "asked_baselines": {axis: _pairs(params, names) for axis, names in baselines.items()},
            "asked_once": {
                "instructions": {"": {}} if anchored or on["anchors"] else {},
                "questions": {"": {}} if answered else {},
            },
        },
        "hard_source": sources["hard"],
        # Our own list is code.
        "open_source": params.prompts.open.source or "conf/prompts",
        "laws_source": str(Path(next(iter(params.laws.values()))).parent) if params.laws else "data/laws",
        # A data set of the hub is named by the parameters alone.
        "novelty_source": _source(params.prompts.novelty.source, "conf/prompts", on["novelty"]),
        "instructions_source": _source(params.prompts.instructions.source, "conf/prompts", anchored or on["anchors"]),
        "questions_source": _source(questions.source, "conf/prompts", answered) if questions else "conf/prompts",
        "retention_source": _source(params.retention.source, "conf/retention", on["retention"]),
        "paloma_source": _source(params.paloma.source, "conf/paloma", on["paloma"]),
        # A pickle is named by its SHA-256 in the parameters; where it is missing, the stage says what to do.
        "irt_source": "conf/retention" if irt_is_pickle(params.retention) else params.retention.irt_artifact,
    }


def why_off(stage: Stage, params: Params) -> str:
    """Why a stage has nothing to do but to say so, and what switches it on; empty for one that has."""
    if stage.name == "profile-construction" and not params.profile_construction:
        return "profile_construction is false; `make params OVERRIDES=profile_construction=true` switches it on"
    if stage.axis not in AXES or stage.axis in params.axes:
        return ""
    axes = ",".join([*params.axes, stage.axis])
    return f'the axis {stage.axis} is off; `make params OVERRIDES="axes=[{axes}]"` switches it on'


def rows_of(over: str, params: Params, tables: Mapping[str, Any] | None = None) -> Table:
    """The rows of a table of ``dag_section(params)`` by key; one without a key for a stage that runs once."""
    if not over:
        return {"": {}}
    found: Any = tables or dag_section(params)
    for name in over.split("."):
        found = found[name] if name in found else found[PARTS][name]
    return found


def parts_of(
    stage: Stage, row: Row, params: Params, tables: Mapping[str, Any] | None = None
) -> tuple[tuple[Stage, Row], ...]:
    """The parts of one run of a stage whose axes are on, each with its row."""
    tables = tables or dag_section(params)
    return tuple(
        (part, own)
        for part in stage.parts
        for own in rows_of(part.over, params, tables).values()
        if all(own[name] == row[name] for name in stage.chosen_by)
    )


def template_names(row: Row, params: Params, tables: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Values of the names in a stage's templates."""
    files = {f"dag.{name}": value for name, value in (tables or dag_section(params)).items() if isinstance(value, str)}
    return {"artifacts": params.artifacts, "reports": params.reports, **files, **row}
