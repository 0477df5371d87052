"""What stages have in common: paths, groups of parameters, and kinds of stages by what they do."""

from typing import Literal

from pipeline.axes import AXES
from pipeline.dag.declaration import Paths, Stage

PARAMS_CHECKED = "{artifacts}/params_checked.json"
MODEL_REPORT = "{artifacts}/models/{model}.json"
PREFLIGHT = "{artifacts}/preflight/{model}.json"
TEST_PROMPTS = ("{artifacts}/prompts/unseen.parquet", "{artifacts}/prompts/ood.parquet")
AXIS_PROMPTS = {
    "structured": TEST_PROMPTS,
    "open": ("{artifacts}/prompts/open.parquet",),
    "mcq": ("{artifacts}/prompts/mcq.parquet",),
    "novelty": ("{artifacts}/prompts/novelty.parquet",),
    "anchors": ("{artifacts}/prompts/anchors.parquet",),
    "laws": ("{artifacts}/prompts/laws.parquet",),
    "instructions": ("{artifacts}/prompts/instructions.parquet",),
    "questions": ("{artifacts}/prompts/questions.parquet",),
    "perturbations": ("{artifacts}/prompts/perturbations.parquet",),
    "selfreflect": ("{artifacts}/requests/selfreflect/{model}/{condition}.parquet",),
}
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


def table(kind: str, axis: str) -> str:
    """Path of a table by model and condition, e.g. of generations."""
    return f"{{artifacts}}/{kind}/{axis}/{{model}}/{{condition}}.parquet"


def record(path: str) -> str:
    """Path of the record beside an artifact."""
    return path.removesuffix(".parquet").removesuffix(".json").removesuffix(".npz") + ".provenance.json"


def reading(
    module: str,
    description: str,
    section: str,
    over: str,
    writes: dict[str, Paths] | None = None,
    parameters: tuple[str, ...] = (),
    name: str = "",
) -> Stage:
    """A stage that takes the prompts of a section of ``prompts`` from their source."""
    output = f"{{artifacts}}/prompts/{section}.parquet"
    return Stage(
        name=name or module,
        description=description,
        module=module,
        over=over,
        sources=(f"{{dag.{section}_source}}",),
        after=(PARAMS_CHECKED,),
        writes={"output": output, **(writes or {})},
        records=record(output),
        parameters=(*parameters, f"prompts.{section}"),
    )


def training(kind: str, description: str, reads: dict[str, Paths], parameters: tuple[str, ...]) -> Stage:
    """A stage that trains the adapters of the methods of one kind."""
    return Stage(
        name=f"train_{kind}",
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


def generation(axis: str, description: str, *more: str) -> Stage:
    """A stage that samples answers of a model under a condition, for one axis; ``more`` are settings it alone has."""
    settings = ("num_samples", "answers_per_request", "max_new_tokens", "temperature", "top_p", "checkpoint_defaults")
    settings = (*settings, *more)
    output = table("generations", axis)
    return Stage(
        name=f"generate_{axis}",
        description=description,
        module="generate",
        over=f"sampled.{axis}",
        chosen_by=PAIR,
        constants={"axis": axis},
        after=(PREFLIGHT,),
        reads={"model_report": MODEL_REPORT, "weights": "{weights}", "prompts": AXIS_PROMPTS[axis]},
        writes={"output": output},
        records=record(output),
        parameters=("sampling_seed", "engine.kind", *MODEL, *(f"generate.{{sampling}}.{name}" for name in settings)),
        free_parameters=(*TOKENIZER, "generate.{sampling}.batch_size", "generate.{sampling}.strategy", *ENGINES),
        device="gpu",
        cost=lambda prices, row: prices.generation(row["model"], axis, row["condition"]),
    )


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
    """A stage that runs a model under a condition, and samples nothing."""
    output = writes["output"]
    return Stage(
        name=name,
        description=description,
        module=f"axes.{axis}.{step}",
        over=f"conditions.{axis}",
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
        name=f"eval_{axis}",
        description=description,
        module=f"axes.{axis}.evaluate",
        over=f"evaluated.{axis}",
        chosen_by=("model",),
        reads=reads,
        writes={"output": f"{{artifacts}}/evals/{axis}/{{model}}"},
        parameters=(*BOOTSTRAP, "conditions", *enabled, *parameters),
        device=device,
    )
