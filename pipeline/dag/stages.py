"""The DAG: every stage, declared once.

dvc.yaml is written from these declarations, and so are the command line of each stage, the parameters that it may
read, its record, plans and the runs of tests. What an axis takes is declared in its folder, in the module ``stages``.
"""

from dataclasses import replace

from pipeline.axes import axis_modules
from pipeline.config.seeds import SEEDS
from pipeline.dag.declaration import Stage
from pipeline.dag.stage_kinds import (
    ENGINES,
    MODEL,
    MODEL_REPORT,
    PAIR,
    PARAMS_CHECKED,
    PREFLIGHT,
    TEST_PROMPTS,
    TOKENIZER,
    generation,
    reading,
    together,
    training,
)


def _parts(stage: str) -> tuple[Stage, ...]:
    """What all axes do in a stage, in their order; what several of them share is there once."""
    axes = axis_modules("stages").values()
    return tuple({part.name: part for axis in axes for part in getattr(axis.STAGES, stage)}.values())


_ALL = (
    Stage(
        name="check-params",
        description="params.yaml is what conf/ composes to, and what follows from it and from the code is fresh",
        module="check_params",
        sources=("conf", "params.yaml", "dag.yaml", "code.yaml", "pipeline"),
        writes={"output": PARAMS_CHECKED},
        keeps=False,
    ),
    together(
        "build-prompts",
        "Prompts of every split and axis, from our own lists, files and data sets of the hub",
        "",
        (),
        (
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
                    "seed",
                    "prompts.families",
                    "prompts.train_prompts_per_family",
                    "prompts.unseen_selection",
                    "prompts.ood_selection",
                    "prompts.open",
                    "laws",
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
            *_parts("build"),
        ),
        keeps=False,
    ),
    Stage(
        name="discretize",
        description="Output spaces that a method trains on; none where max_bins is null",
        module="discretize",
        over="spaces",
        chosen_by=("space",),
        reads={"prompts": ("{artifacts}/prompts/train.parquet",)},
        writes={"output": "{artifacts}/output_spaces/{space}.parquet"},
        records="{artifacts}/output_spaces/{space}.provenance.json",
        parameters=("discretize.{space}",),
        keeps=False,
        cost=lambda prices, row: prices.spaces(row["space"]),
    ),
    Stage(
        name="discretize-eval",
        description="Output spaces that every condition is scored on",
        module="discretize",
        over="axes.structured",
        constants={"space": "eval"},
        reads={"prompts": TEST_PROMPTS},
        writes={"output": "{artifacts}/output_spaces/eval.parquet"},
        records="{artifacts}/output_spaces/eval.provenance.json",
        parameters=("discretize.eval",),
        keeps=False,
        cost=lambda prices, row: prices.spaces("eval"),
    ),
    Stage(
        name="check-model",
        description="Checkpoint, tokenizer and chat template are usable",
        module="check_model",
        over="models",
        chosen_by=("model",),
        sources=("{source}",),
        reads={"prompts": ("{artifacts}/prompts/ood.parquet",)},
        writes={"output": MODEL_REPORT},
        records="{artifacts}/models/{model}.provenance.json",
        parameters=(*TOKENIZER, "models.{model}.chat", "models.{model}.display_name"),
    ),
    Stage(
        name="preflight",
        description="The engine samples the model's own law, and adapters take effect, before anything costly runs",
        module="preflight",
        over="models",
        chosen_by=("model",),
        reads={
            "model_report": MODEL_REPORT,
            "prompts": TEST_PROMPTS,
            "open_prompts": "{artifacts}/prompts/open.parquet",
            "mcq_prompts": "{artifacts}/prompts/mcq.parquet",
        },
        writes={"output": PREFLIGHT, "details": "{artifacts}/preflight/{model}.details.json"},
        records="{artifacts}/preflight/{model}.provenance.json",
        parameters=(
            "seed",
            "engine.kind",
            *MODEL,
            "compat",
            "models.{model}.lora_target_modules",
            "train.lora_rank",
            "train.lora_alpha",
        ),
        free_parameters=(*TOKENIZER, "generate.structured.batch_size", "generate.structured.strategy", *ENGINES),
        device="gpu",
        cost=lambda prices, row: prices.preflight(row["model"]),
    ),
    Stage(
        name="build-tries",
        description="Token prefix tries of one tokenizer and output space",
        module="build_tries",
        over="tries",
        chosen_by=("model", "space"),
        reads={"model_report": MODEL_REPORT, "source": "{source}"},
        writes={"output": "{artifacts}/tries/{tokenizer}/{space}"},
        records="{artifacts}/tries/{tokenizer}/{space}.provenance.json",
        parameters=("discretize.{space}.max_bins", "discretize.{space}.num_decimals"),
        free_parameters=TOKENIZER,
        keeps=False,
        cost=lambda prices, row: prices.tries(row["space"]),
    ),
    replace(
        generation(
            "instructions", "Replies of the base checkpoint that methods with anchors are trained on", over="anchored"
        ),
        name="sample-instructions",
    ),
    training(
        "soft",
        "Soft-target adapters (Eq. 3)",
        {"tries": "{artifacts}/tries/{tokenizer}/soft"},
        ("train.soft",),
    ),
    training(
        "hard",
        "Hard-target adapters (Eq. 4)",
        {"hard_targets": "{dag.hard_source}"},
        ("train.hard", "discretize.hard.max_bins", "discretize.hard.num_decimals"),
    ),
    training(
        "mixed",
        "Adapters of several terms: soft and hard targets together, or targets with anchors",
        {
            "tries": "{tries}",
            "hard_targets": "{hard_targets}",
            "instructions": "{instructions}",
            "replies": "{replies}",
        },
        (
            *(
                f"{section}.{{{place}_target}}{keys}"
                for place in ("first", "last")
                for section, keys in (("train", ""), ("discretize", ".max_bins"), ("discretize", ".num_decimals"))
            ),
            "generate.instructions.max_new_tokens",
        ),
    ),
    Stage(
        name="merge-adapters",
        description="Adapters that are weighted sums of trained ones",
        module="merge_adapters",
        over="merged",
        chosen_by=("model", "method"),
        reads={
            "adapters": (
                "{artifacts}/adapters/{model}/{first_method}",
                "{artifacts}/adapters/{model}/{last_method}",
            )
        },
        writes={"output": "{artifacts}/adapters/{model}/{method}"},
        parameters=("methods.{method}.merge",),
    ),
    together(
        "generate",
        "What all axes sample of a model under a condition",
        "generated",
        PAIR,
        _parts("generate"),
        ["generate.*"],
        device="gpu",
    ),
    together(
        "generate-baselines",
        "What axes sample of a base checkpoint that is asked or decoded in another way",
        "baselines",
        PAIR,
        _parts("baselines"),
        ["generate.*"],
        device="gpu",
    ),
    together(
        "score",
        "What all axes compute of a model's probabilities under a condition",
        "scored",
        PAIR,
        _parts("score"),
        ["discretize.eval", "retention", "paloma"],
        device="gpu",
    ),
    together(
        "judge",
        "What other models say of a model's answers under all conditions",
        "judged",
        ("model",),
        _parts("judge"),
        ["evaluate.novelty", "selfreflect"],
        device="gpu",
    ),
    *_parts("stages"),
    Stage(
        name="profile-construction",
        description="Time and memory of output spaces and tries (Table 24); off unless profile_construction is true",
        module="profile_construction",
        over="profiled",
        chosen_by=("model", "space"),
        reads={"model_report": MODEL_REPORT, "prompts": ("{artifacts}/prompts/train.parquet",)},
        writes={"output": "{artifacts}/construction/{tokenizer}-{space}"},
        parameters=("discretize.{space}",),
        free_parameters=TOKENIZER,
        keeps=False,
    ),
    Stage(
        name="report",
        description="Tables, figures and the page",
        module="report",
        sources=("data/published", "pipeline/report/page/templates", "{dag.laws_source}"),
        reads={"evals": ("{artifacts}/evals",), "adapters": ("{artifacts}/adapters",), "prompts": TEST_PROMPTS},
        writes={
            name: f"{{reports}}/{path}"
            for name, path in {
                "metrics": "metrics.csv",
                "tables": "tables",
                "figures": "figures",
                "page": "index.html",
                "plots": "plots",
            }.items()
        },
        metrics="{reports}/metrics.json",
        parameters=(
            "experiment",
            "compat",
            "axes",
            "conditions",
            "laws",
            "models",
            "methods",
            "tests",
            "generate",
            *SEEDS,
            "prompts",
            "discretize",
            "train",
            "distributed",
            "evaluate",
            "retention",
            "paloma",
        ),
        keeps=False,
    ),
)

STAGES: dict[str, Stage] = {stage.name: stage for stage in _ALL}
"""All stages by their names in dvc.yaml, each behind what it reads."""
PARTS: dict[str, Stage] = {part.name: part for stage in _ALL for part in stage.parts}
"""What stages of several parts do, by name."""
DECLARED: dict[str, Stage] = {**STAGES, **PARTS}
"""Both: all that a record may be of."""
PIECES: dict[str, Stage] = {piece.name: piece for stage in _ALL for piece in (stage.parts or (stage,))}
"""All that computes something: stages, and parts in the place of the stages that they are of."""
