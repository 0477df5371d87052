"""What stages have in common: paths, groups of parameters, and kinds of stages by what they do."""

from dataclasses import dataclass

from pipeline.dag.declaration import Paths, Stage

PARAMS_CHECKED = "{artifacts}/params_checked.json"
MODEL_REPORT = "{artifacts}/models/{model}.json"
PREFLIGHT = "{artifacts}/preflight/{model}.json"
TEST_PROMPTS = ("{artifacts}/prompts/unseen.parquet", "{artifacts}/prompts/ood.parquet")
TOKENIZER = ("models.{model}.checkpoint", "models.{model}.revision", "models.{model}.terminator")
"""What a model's report says as well, by which the stages behind check_model depend on it."""
MODEL = ("models.{model}.dtype", "models.{model}.attention", "models.{model}.chat")
ENGINES = ("engine.vllm", "engine.openai")
PAIR = ("model", "condition")
SAMPLING = ("num_samples", "max_new_tokens", "temperature", "top_p", "checkpoint_defaults")


def prompts_of(axis: str) -> tuple[str, ...]:
    """Paths of the requests of an axis, or of whatever else is asked."""
    return (f"{{artifacts}}/prompts/{axis}.parquet",)


def table(kind: str, axis: str) -> str:
    """Path of a table by model and condition."""
    return f"{{artifacts}}/{kind}/{axis}/{{model}}/{{condition}}.parquet"


def record(path: str) -> str:
    return path.removesuffix(".parquet").removesuffix(".json").removesuffix(".npz") + ".provenance.json"


def evaluation_name(axis: str) -> str:
    return f"eval-{axis.replace('_', '-')}"


@dataclass(frozen=True)
class AxisStages:
    """The parts that an axis has of the stages that all axes share. Its evaluation is a stage of dvc.yaml."""

    build: tuple[Stage, ...] = ()  # of build-prompts
    generate: tuple[Stage, ...] = ()
    baselines: tuple[Stage, ...] = ()  # of generate-baselines
    score: tuple[Stage, ...] = ()
    judge: tuple[Stage, ...] = ()


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
    (output,) = prompts_of(section)
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


def generation(
    axis: str, description: str, *more: str, sampled_as: str = "", over: str = "", prompts: Paths = ()
) -> Stage:
    """A part that samples answers, under a baseline where it samples as "{condition}"; ``more`` are settings that it
    alone has. What is empty is the axis's own."""
    section, output = f"generate.{sampled_as or axis}", table("generations", axis)
    baseline = sampled_as == "{condition}"
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
        parameters=("sampling_seed", "engine.kind", *MODEL, *(f"{section}.{name}" for name in (*SAMPLING, *more))),
        free_parameters=(*TOKENIZER, f"{section}.batch_size", *ENGINES),
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
) -> Stage:
    """A part that runs a model under a condition, and samples nothing; ``cost`` is a method of ``Prices``."""
    return Stage(
        name=name,
        description=description,
        module=f"axes.{axis}.score",
        over=f"asked.{axis}",
        chosen_by=PAIR,
        sources=sources,
        after=(PREFLIGHT,),
        reads={"model_report": MODEL_REPORT, "weights": "{weights}", **reads},
        writes=writes,
        records=record(str(writes["output"])),
        parameters=(*MODEL, *parameters),
        free_parameters=(*TOKENIZER, *free_parameters),
        device="gpu",
        cost=lambda prices, row: getattr(prices, cost)(row["model"]),
    )


SHARED_PARTS = {
    "build-prompts": (
        Stage(
            name="build-prompts-structured",
            description="Structured prompts of all splits; open-ended and multiple-choice prompts",
            module="build_structured_prompts",
            sources=("{dag.open_source}", "{dag.laws_source}"),
            after=(PARAMS_CHECKED,),
            writes={
                name: f"{{artifacts}}/prompts/{name}.parquet" for name in ("train", "unseen", "ood", "open", "mcq")
            },
            records="{artifacts}/prompts/provenance.json",
            parameters=(
                *("seed", "prompts.families", "prompts.train_parameters", "prompts.train_prompts_per_family"),
                *("prompts.unseen_selection", "prompts.ood_selection", "prompts.open", "laws"),
            ),
            keeps=False,
        ),
        reading(
            "build_instructions",
            "General instructions, with those that are held out from retention-aware fine-tuning",
            "instructions",
            "asked_once.instructions",
            writes={"held_out": "{artifacts}/prompts/anchors.parquet"},
            parameters=("seed",),
        ),
    )
}
"""Parts that are no axis's own, by stage."""
