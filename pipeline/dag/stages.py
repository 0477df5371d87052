"""The DAG: every stage, declared once.

dvc.yaml is written from these declarations, and so are the command line of each stage, the parameters that it may
read, its record, plans and the runs of tests. Those of the axes, whose modules are in their
folders, are in ``pipeline.dag.axis_stages``.
"""

from pipeline.config.seeds import SEEDS
from pipeline.dag.axis_stages import AXIS_STAGES
from pipeline.dag.declaration import Stage
from pipeline.dag.stage_kinds import (
    ENGINES,
    MODEL,
    MODEL_REPORT,
    PARAMS_CHECKED,
    PREFLIGHT,
    TEST_PROMPTS,
    TOKENIZER,
    generation,
    reading,
    training,
)

_ALL = (
    Stage(
        name="check_params",
        description="params.yaml is what conf/ composes to, and what follows from it and from the code is fresh",
        module="check_params",
        sources=("conf", "params.yaml", "dag.yaml", "code.yaml", "pipeline"),
        writes={"output": PARAMS_CHECKED},
        keeps=False,
    ),
    Stage(
        name="build_prompts",
        description="Structured prompts of the splits train, unseen and ood; open-ended and multiple-choice prompts",
        module="build_prompts",
        sources=("{dag.open_source}", "{dag.laws_source}"),
        after=(PARAMS_CHECKED,),
        writes={name: f"{{artifacts}}/prompts/{name}.parquet" for name in ("train", "unseen", "ood", "open", "mcq")},
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
    Stage(
        name="build_laws",
        description="Requests for the laws of one's own: held-out templates, held-out values, and those trained on",
        module="axes.laws.build",
        over="axes.laws",
        sources=("{dag.laws_source}",),
        after=(PARAMS_CHECKED,),
        writes={"output": "{artifacts}/prompts/laws.parquet"},
        records="{artifacts}/prompts/laws.provenance.json",
        parameters=("laws",),
        keeps=False,
    ),
    reading(
        "axes.novelty.build",
        "NoveltyBench's prompts, or those of a file",
        "novelty",
        over="axes.novelty",
        name="build_novelty_prompts",
    ),
    reading(
        "build_instructions",
        "General instructions, with those that are held out from retention-aware fine-tuning",
        "instructions",
        over="instructions",
        writes={"held_out": "{artifacts}/prompts/anchors.parquet"},
        parameters=("seed",),
    ),
    reading(
        "axes.questions.build",
        "Questions with people's answers, accepted ones or both",
        "questions",
        over="questions",
        name="build_questions",
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
        name="discretize_eval",
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
        name="check_model",
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
        name="build_tries",
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
    generation("instructions", "Replies of the base checkpoint that methods with anchors are trained on"),
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
        name="merge_adapters",
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
    *AXIS_STAGES,
    Stage(
        name="profile_construction",
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
"""All stages by name, each behind what it reads."""
