"""What stages have in common: paths, groups of parameters, and kinds of stages by what they do."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Literal

from pipeline.axes import AXES
from pipeline.dag.declaration import Paths, Stage, flat

PARAMS_CHECKED = "{artifacts}/params_checked.json"
MODEL_REPORT = "{artifacts}/models/{model}.json"
PREFLIGHT = "{artifacts}/preflight/{model}.json"
TEST_PROMPTS = ("{artifacts}/prompts/unseen.parquet", "{artifacts}/prompts/ood.parquet")
TOKENIZER = ("models.{model}.checkpoint", "models.{model}.revision", "models.{model}.terminator")
"""What a model's report says as well, by which the stages behind check_model depend on it."""
MODEL = ("models.{model}.dtype", "models.{model}.attention", "models.{model}.chat")
ENGINES = ("engine.vllm", "engine.openai")
BOOTSTRAP = ("seed", "evaluate.bootstrap_replicates")
PAIR = ("model", "condition")
TRAINING = (
    "train_seed",
    *MODEL,
    "models.{model}.lora_target_modules",
    "train.lora_rank",
    "train.lora_alpha",
    "train.lora_dropout",
    "train.learning_rate",
    "train.weight_decay",
    "train.warmup_ratio",
    "train.max_grad_norm",
    "train.global_batch_size",
    "train.micro_batch_size",
    "train.max_length",
    "train.temperature",
    "train.adapter_dtype",
    "methods.{method}.soft_share",
    "methods.{method}.outside_weight",
    "methods.{method}.anchors",
    "methods.{method}.train",
    "methods.{method}.merge",
)


def prompts_of(axis: str) -> tuple[str, ...]:
    """Paths of the requests of an axis, or of whatever else is asked, e.g. questions."""
    return (f"{{artifacts}}/prompts/{axis}.parquet",)


def table(kind: str, axis: str) -> str:
    """Path of a table by model and condition, e.g. of generations."""
    return f"{{artifacts}}/{kind}/{axis}/{{model}}/{{condition}}.parquet"


def record(path: str) -> str:
    """Path of the record beside an artifact."""
    return path.removesuffix(".parquet").removesuffix(".json").removesuffix(".npz") + ".provenance.json"


@dataclass(frozen=True)
class AxisStages:
    """What an axis takes: parts of the stages that all axes share, and stages of its own.

    Attributes:
        build: Parts of build-prompts: its prompts, where they are no others'.
        generate: Parts of generate: what it samples of every condition.
        baselines: Parts of generate-baselines: what it samples of every baseline.
        score: Parts of score: what it computes of every condition's probabilities.
        judge: Parts of judge: what other models say of the answers.
        stages: Its own, the evaluation last.
    """

    build: tuple[Stage, ...] = ()
    generate: tuple[Stage, ...] = ()
    baselines: tuple[Stage, ...] = ()
    score: tuple[Stage, ...] = ()
    judge: tuple[Stage, ...] = ()
    stages: tuple[Stage, ...] = ()


def reading(
    module: str,
    description: str,
    section: str,
    over: str,
    writes: dict[str, Paths] | None = None,
    parameters: tuple[str, ...] = (),
    settings: str = "",
) -> Stage:
    """A part that takes the prompts of a section of ``prompts``, or of other ``settings``, from their source."""
    output = f"{{artifacts}}/prompts/{section}.parquet"
    return Stage(
        name=f"build-prompts-{section}",
        description=description,
        module=module,
        over=over,
        sources=(f"{{dag.{section}_source}}",),
        after=(PARAMS_CHECKED,),
        writes={"output": output, **(writes or {})},
        records=record(output),
        parameters=(*parameters, settings or f"prompts.{section}"),
        keeps=False,
    )


def training(kind: str, description: str, reads: dict[str, Paths], parameters: tuple[str, ...]) -> Stage:
    """A stage that trains the adapters of the methods of one kind."""
    return Stage(
        name=f"train-{kind}",
        description=description,
        module=f"train_{kind}",
        over=f"trained.{kind}",
        chosen_by=("model", "method"),
        after=(PREFLIGHT,),
        reads={"model_report": MODEL_REPORT, "prompts": "{artifacts}/prompts/train.parquet", **reads},
        writes={"output": "{artifacts}/adapters/{model}/{method}"},
        parameters=(*TRAINING, *parameters),
        free_parameters=(*TOKENIZER, "train.tokens_per_pass", "train.checkpoint_every_steps", "distributed"),
        device="training",
        cost=lambda prices, row: prices.training(row["model"], row["method"]),
    )


def generation(
    axis: str, description: str, *more: str, sampled_as: str = "", over: str = "", prompts: Paths = ()
) -> Stage:
    """A part that samples answers of a model under a condition, for one axis.

    Args:
        axis: The axis, or whatever else is asked.
        description: One line.
        more: Settings that it alone has.
        sampled_as: The section of ``generate`` with its settings; the axis's own where empty.
        over: Table of its rows; the conditions of the axis where empty.
        prompts: Paths of its requests; those of ``prompts_of`` where empty.
    """
    section, output = f"generate.{sampled_as or axis}", table("generations", axis)
    baseline = sampled_as == "{condition}"
    settings = ("num_samples", "answers_per_request", "max_new_tokens", "temperature", "top_p", "checkpoint_defaults")
    return Stage(
        name=f"generate-{'baselines-' if baseline else ''}{axis}",
        description=description,
        module="generate_axis",
        over=over or f"{'asked_baselines' if baseline else 'asked'}.{axis}",
        chosen_by=PAIR,
        constants={"axis": axis},
        after=(PREFLIGHT,),
        reads={"model_report": MODEL_REPORT, "weights": "{weights}", "prompts": prompts or prompts_of(axis)},
        writes={"output": output},
        records=record(output),
        parameters=("sampling_seed", "engine.kind", *MODEL, *(f"{section}.{name}" for name in (*settings, *more))),
        free_parameters=(*TOKENIZER, f"{section}.batch_size", f"{section}.strategy", *ENGINES),
        device="gpu",
        cost=lambda prices, row: prices.generation(row["model"], axis, row["condition"]),
    )


def baseline_generation(axis: str, description: str, prompts: Paths = ()) -> Stage:
    """A part that samples answers of a model under a baseline, for one axis."""
    return generation(axis, description, sampled_as="{condition}", prompts=prompts)


def scoring(
    name: str,
    description: str,
    axis: str,
    reads: dict[str, Paths],
    writes: dict[str, Paths],
    parameters: tuple[str, ...],
    cost: str,
    free_parameters: tuple[str, ...] = (),
    sources: tuple[str, ...] = (),
    step: str = "score",
) -> Stage:
    """A part that runs a model under a condition, and samples nothing."""
    output = writes["output"]
    return Stage(
        name=name,
        description=description,
        module=f"axes.{axis}.{step}",
        over=f"asked.{axis}",
        chosen_by=PAIR,
        sources=sources,
        after=(PREFLIGHT,),
        reads={"model_report": MODEL_REPORT, "weights": "{weights}", **reads},
        writes=writes,
        records=record(str(output)),
        parameters=(*MODEL, *parameters),
        free_parameters=(*TOKENIZER, *free_parameters),
        device="gpu",
        cost=lambda prices, row: getattr(prices, cost)(row["model"]),
    )


def of_all_conditions(kind: str, axis: str) -> str:
    """Directory of a model's tables, one for each condition, e.g. of generations."""
    return f"{{artifacts}}/{kind}/{axis}/{{model}}"


def evaluation_name(axis: str) -> str:
    """Name of the stage that evaluates an axis."""
    return f"eval-{axis.replace('_', '-')}"


def evaluation(
    axis: str,
    description: str,
    reads: dict[str, Paths],
    parameters: tuple[str, ...] = (),
    device: Literal["none", "gpu"] = "none",
) -> Stage:
    """A stage that turns what a model did under all of its conditions into metrics; it loads no language model."""
    enabled = tuple(f"generate.{baseline}.enabled" for baseline in AXES[axis].baselines)
    return Stage(
        name=evaluation_name(axis),
        description=description,
        module=f"axes.{axis}.evaluate",
        over=f"evaluated.{axis}",
        chosen_by=("model",),
        reads=reads,
        writes={"output": f"{{artifacts}}/evals/{axis}/{{model}}"},
        parameters=(*BOOTSTRAP, "conditions", *enabled, *parameters),
        device=device,
    )


def common_path(path: str, chosen_by: Sequence[str]) -> str:
    """The path as far as it is the same for all rows of a stage that ``chosen_by`` does not tell apart."""
    apart = [f"{{{name}}}" for name in PAIR if name not in chosen_by]
    kept = []
    for folder in path.split("/"):
        if any(name in folder for name in apart):
            break
        kept.append(folder)
    return "/".join(kept)


def _section(key: str, sections: Sequence[str]) -> str:
    """The section that a key is in, of those that match a pattern such as "generate.*"; else the key itself."""
    names = key.split(".")
    heads = ((".".join(names[: pattern.count(".") + 1]), pattern) for pattern in sections)
    return next((head for head, pattern in heads if fnmatch(head, pattern)), key)


def together(
    name: str,
    description: str,
    over: str,
    chosen_by: tuple[str, ...],
    parts: Sequence[Stage],
    sections: Sequence[str] = (),
    device: Literal["none", "gpu"] = "none",
    keeps: bool = True,
) -> Stage:
    """A stage of several parts, which depends on what any of them depends on.

    Args:
        name: Its name, and with underscores that of its module.
        description: One line.
        over: Table of its rows.
        chosen_by: Names of the row's entries that a command line names a run by.
        parts: What it does, in order; a part may read what an earlier one writes.
        sections: Patterns of sections of the parameters that it depends on as a whole, where parts depend on keys in
            them: what has not changed for a part is done, so that this costs a start of the stage.
        device: As for a stage.
        keeps: As for a stage.
    """

    def union(paths: Sequence[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(common_path(path, chosen_by) for path in paths))

    written = union([path for part in parts for path in part.outputs])
    read = union([path for part in parts for path in flat(part.reads)])
    return Stage(
        name=name,
        description=description,
        module=name.replace("-", "_"),
        over=over,
        chosen_by=chosen_by,
        sources=union([path for part in parts for path in part.sources]),
        after=union([path for part in parts for path in part.after]),
        reads={"read": tuple(path for path in read if not any(f"{path}/".startswith(f"{own}/") for own in written))},
        writes={"written": written},
        # Not of any part: an axis that is switched on is worked on, and what is there of the others is kept.
        parameters=("axes", *dict.fromkeys(_section(key, sections) for part in parts for key in part.parameters)),
        keeps=keeps,
        device=device,
        parts=tuple(parts),
    )
