"""The DAG: every stage, declared once.

dvc.yaml is written from these declarations, and so are the command line of each stage, the parameters that it may
read, its record, plans and the runs of tests. To add an evaluation, add its module to ``pipeline/stages`` and its
declaration here.
"""

from pipeline.config.seeds import SEEDS
from pipeline.dag.declaration import Stage
from pipeline.dag.stage_kinds import (
    AXIS_PROMPTS,
    ENGINES,
    MODEL,
    MODEL_REPORT,
    PAIR,
    PARAMS_CHECKED,
    PREFLIGHT,
    TEST_PROMPTS,
    TOKENIZER,
    evaluation,
    generation,
    reading,
    record,
    scoring,
    table,
    training,
)


def _novelty(name: str, description: str, step: str, **more) -> Stage:
    output = f"{{artifacts}}/novelty/{{model}}/{{condition}}/{step}"
    return Stage(
        name=name,
        description=description,
        module=name,
        over="conditions.novelty",
        chosen_by=PAIR,
        writes={"output": output},
        shares={"cache": "{artifacts}/cache/novelty_scores.sqlite"},
        records=record(output),
        device="gpu",
        **more,
    )


_SAMPLES = {
    "prompts": TEST_PROMPTS,
    "generations": table("generations", "structured"),
    "floors": "{artifacts}/floors/structured.parquet",
}
_STRUCTURED = ("evaluate.floor_replicates", "evaluate.token_budget", "models.{model}.chat")
_OPEN = ("generate.open.num_samples", "models.{model}.chat")
_BASELINE = "generate.{condition}.answers_per_request"
_TRIES = "{artifacts}/tries/{tokenizer}/eval"

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
        sources=("{dag.open_source}",),
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
        ),
        keeps=False,
    ),
    reading("build_novelty_prompts", "NoveltyBench's prompts, or those of a file", "novelty", over="axes.novelty"),
    reading(
        "build_instructions",
        "General instructions, with those that are held out from retention-aware fine-tuning",
        "instructions",
        over="instructions",
        writes={"held_out": "{artifacts}/prompts/anchors.parquet"},
        parameters=("seed",),
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
    Stage(
        name="floor_structured",
        description="What a perfect sampler scores at this sample size",
        module="floor_structured",
        over="axes.structured",
        reads={"prompts": TEST_PROMPTS},
        writes={"output": "{artifacts}/floors/structured.parquet"},
        records="{artifacts}/floors/structured.provenance.json",
        parameters=(
            "seed",
            "evaluate.floor_replicates",
            "generate.structured.num_samples",
            *(
                f"generate.{baseline}.{name}"
                for baseline in ("ssot", "constrained", "batch", "verbalized")
                for name in ("enabled", "num_samples", "answers_per_request")
            ),
        ),
        keeps=False,
    ),
    generation("structured", "Answers to the structured-sampling prompts"),
    generation("open", "Answers to the open-ended prompts"),
    generation("mcq", "Multiple-choice questions"),
    generation("novelty", "Responses to the NoveltyBench prompts"),
    scoring(
        "score_structured",
        "Forward KL along sampled trie paths",
        "structured",
        {"prompts": TEST_PROMPTS, "tries": _TRIES},
        {"output": table("scores", "structured")},
        ("seed", "evaluate.paths_per_prompt", "discretize.eval.num_decimals"),
        "path_scores",
    ),
    scoring(
        "exact_structured",
        "The model's exact law over answers",
        "structured",
        {"prompts": TEST_PROMPTS, "tries": _TRIES},
        {
            "output": table("exact", "structured"),
            "cdf": "{artifacts}/exact/structured/{model}/{condition}.cdf.parquet",
        },
        (
            "discretize.eval.num_decimals",
            "generate.structured.max_new_tokens",
            "evaluate.exact_max_prefixes",
            "evaluate.bounds_width",
            "evaluate.bounds_max_positions",
        ),
        "exact_law",
    ),
    evaluation(
        "structured",
        "Metrics of structured sampling",
        {
            **_SAMPLES,
            "scores": table("scores", "structured"),
            "exact": table("exact", "structured"),
            "exact_cdf": "{artifacts}/exact/structured/{model}/{condition}.cdf.parquet",
        },
        _STRUCTURED,
    ),
    evaluation(
        "structured",
        "Sample-level metrics of structured sampling",
        _SAMPLES,
        (*_STRUCTURED, _BASELINE),
        over="baselines",
        name="eval_structured_baseline",
    ),
    scoring(
        "score_open",
        "First-step distributions of the open-ended prompts",
        "open",
        {"prompts": AXIS_PROMPTS["open"]},
        {"output": table("scores", "open")},
        (),
        "first_steps",
    ),
    evaluation(
        "open",
        "Support sizes, unique outputs and entropies of open-ended answers",
        {
            "prompts": AXIS_PROMPTS["open"],
            "generations": table("generations", "open"),
            "scores": table("scores", "open"),
        },
        _OPEN,
    ),
    evaluation(
        "open",
        "Unique outputs and entropies of open-ended answers",
        {"prompts": AXIS_PROMPTS["open"], "generations": table("generations", "open")},
        (*_OPEN, _BASELINE),
        over="baselines",
        name="eval_open_baseline",
    ),
    evaluation(
        "mcq",
        "Parse rates and answer-position balance",
        {"prompts": AXIS_PROMPTS["mcq"], "generations": table("generations", "mcq")},
        ("evaluate.mcq_parser",),
    ),
    _novelty(
        "partition_novelty",
        "Classes of NoveltyBench responses that say the same",
        "partitions",
        reads={"prompts": AXIS_PROMPTS["novelty"], "generations": table("generations", "novelty")},
        parameters=tuple(
            f"evaluate.novelty.classifier.{name}"
            for name in (
                "kind",
                "checkpoint",
                "revision",
                "tokenizer",
                "tokenizer_revision",
                "dtype",
                "threshold",
                "max_tokens",
            )
        ),
        free_parameters=("evaluate.novelty.classifier.tokens_per_pass",),
        cost=lambda prices, row: prices.partition(row["model"]),
    ),
    _novelty(
        "reward_novelty",
        "Ratings of the representatives of those classes",
        "scores",
        after=(PREFLIGHT,),
        reads={
            "model_report": MODEL_REPORT,
            "partitions": "{artifacts}/novelty/{model}/{condition}/partitions",
        },
        parameters=(
            *MODEL,
            *(f"evaluate.novelty.reward.{name}" for name in ("kind", "checkpoint", "revision", "dtype", "max_length")),
            "evaluate.novelty.patience",
        ),
        free_parameters=(*TOKENIZER, "evaluate.novelty.reward.tokens_per_pass"),
        cost=lambda prices, row: prices.reward(row["model"]),
    ),
    evaluation(
        "novelty",
        "Distinct classes and utility by prompt and split",
        {
            "prompts": AXIS_PROMPTS["novelty"],
            "partitions": "{artifacts}/novelty/{model}/{condition}/partitions",
            "scores": "{artifacts}/novelty/{model}/{condition}/scores",
        },
    ),
    Stage(
        name="import_irt",
        description="Item parameters of gp-IRT as plain arrays",
        module="import_irt",
        over="axes.retention",
        sources=("{dag.irt_source}",),
        after=(PARAMS_CHECKED,),
        writes={"output": "{artifacts}/retention/irt.npz"},
        records="{artifacts}/retention/irt.provenance.json",
        parameters=("retention.irt_artifact", "retention.irt_sha256"),
        keeps=False,
    ),
    scoring(
        "score_retention",
        "Items of the tiny tasks, right or wrong",
        "retention",
        {},
        {"output": table("scores", "retention")},
        (
            "retention.source",
            "retention.revisions",
            "retention.tasks",
            "retention.prompt_format",
            "retention.max_new_tokens",
        ),
        "retention",
        ("retention.tokens_per_pass",),
        ("{dag.retention_source}",),
    ),
    evaluation(
        "retention",
        "gp-IRT, and what is kept of the base checkpoint",
        {
            "scores": table("scores", "retention"),
            "base_scores": "{artifacts}/scores/retention/{model}/base.parquet",
            "irt": "{artifacts}/retention/irt.npz",
        },
        ("retention.gsm8k", "retention.tasks", "tests.significance", "tests.accuracy_margin"),
    ),
    scoring(
        "score_paloma",
        "Log-likelihoods of PALOMA's documents",
        "paloma",
        {},
        {"output": table("scores", "paloma")},
        tuple(
            f"paloma.{name}"
            for name in ("source", "revision", "split", "slices", "window", "stride", "bos", "max_documents_per_slice")
        ),
        "paloma",
        ("paloma.tokens_per_pass",),
        ("{dag.paloma_source}",),
    ),
    evaluation(
        "paloma",
        "Perplexity and bits per byte by slice, paired with the base checkpoint",
        {
            "scores": table("scores", "paloma"),
            "base_scores": "{artifacts}/scores/paloma/{model}/base.parquet",
        },
        ("tests.significance", "tests.bits_per_byte_margin"),
    ),
    generation("anchors", "Replies to held-out instructions"),
    scoring(
        "score_anchors",
        "Divergence from the base checkpoint along replies to held-out instructions",
        "anchors",
        {
            "prompts": AXIS_PROMPTS["anchors"],
            "base_generations": "{artifacts}/generations/anchors/{model}/base.parquet",
            "generations": table("generations", "anchors"),
        },
        {"output": table("scores", "anchors")},
        (),
        "divergences",
        ("evaluate.tokens_per_pass",),
    ),
    evaluation(
        "anchors",
        "Divergence from the base checkpoint by kind of instruction",
        {"prompts": AXIS_PROMPTS["anchors"], "scores": table("scores", "anchors")},
    ),
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
        sources=("data/published", "pipeline/report/page/templates"),
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
