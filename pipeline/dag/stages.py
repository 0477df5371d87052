"""The DAG: every stage, declared once.

dvc.yaml is written from these declarations, and so are the command line of each stage, the parameters that it may
read, its record, plans and the runs of tests. To add an evaluation, add its module to ``pipeline/stages`` and its
declaration here.
"""

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
}
TOKENIZER = ("models.{model}.checkpoint", "models.{model}.revision", "models.{model}.terminator")
"""What a model's report says as well, by which the stages behind check_model depend on it."""
MODEL = ("models.{model}.dtype", "models.{model}.attention", "models.{model}.chat")
ENGINES = ("engine.vllm", "engine.openai")
BOOTSTRAP = ("seed", "evaluate.bootstrap_replicates")
PAIR = ("model", "condition")
TRAINING = (
    "seed",
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
)


def _table(kind: str, axis: str) -> str:
    """Path of a table by model and condition, e.g. of generations."""
    return f"{{artifacts}}/{kind}/{axis}/{{model}}/{{condition}}.parquet"


def _record(path: str) -> str:
    """Path of the record beside an artifact."""
    return path.removesuffix(".parquet").removesuffix(".json").removesuffix(".npz") + ".provenance.json"


def _training(method: str, description: str, reads: dict[str, Paths], parameters: tuple[str, ...]) -> Stage:
    return Stage(
        name=f"train_{method}",
        description=description,
        module=f"train_{method}",
        over="models",
        chosen_by=("model",),
        after=(PREFLIGHT,),
        reads={"model_report": MODEL_REPORT, "prompts": "{artifacts}/prompts/train.parquet", **reads},
        writes={"output": f"{{artifacts}}/adapters/{{model}}/{method}"},
        parameters=(*TRAINING, *parameters),
        free_parameters=(*TOKENIZER, "train.tokens_per_pass", "train.checkpoint_every_steps", "distributed"),
        device="training",
        cost=lambda prices, row: prices.training(row["model"], method),
    )


def _generation(axis: str, description: str) -> Stage:
    settings = ("num_samples", "answers_per_request", "max_new_tokens", "temperature", "top_p")
    output = _table("generations", axis)
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
        records=_record(output),
        parameters=("seed", "engine.kind", *MODEL, *(f"generate.{{sampling}}.{name}" for name in settings)),
        free_parameters=(*TOKENIZER, "generate.{sampling}.batch_size", "generate.{sampling}.strategy", *ENGINES),
        device="gpu",
        cost=lambda prices, row: prices.generation(row["model"], axis, row["condition"]),
    )


def _scoring(
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
    """A stage that runs a model under a condition, and samples nothing."""
    output = writes["output"]
    return Stage(
        name=name,
        description=description,
        module=name,
        over=f"conditions.{axis}",
        chosen_by=PAIR,
        sources=sources,
        after=(PREFLIGHT,),
        reads={"model_report": MODEL_REPORT, "weights": "{weights}", **reads},
        writes=writes,
        records=_record(str(output)),
        parameters=(*MODEL, *parameters),
        free_parameters=(*TOKENIZER, *free_parameters),
        device="gpu",
        cost=lambda prices, row: getattr(prices, cost)(row["model"]),
    )


def _evaluation(
    axis: str,
    description: str,
    reads: dict[str, Paths],
    parameters: tuple[str, ...] = (),
    over: str = "conditions",
    name: str = "",
) -> Stage:
    """A stage that turns what a model did into metrics; it loads no model."""
    return Stage(
        name=name or f"eval_{axis}",
        description=description,
        module=f"eval_{axis}",
        over=f"{over}.{axis}",
        chosen_by=PAIR,
        reads=reads,
        writes={"output": f"{{artifacts}}/evals/{axis}/{{model}}/{{condition}}"},
        parameters=(*BOOTSTRAP, *parameters),
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
        records=_record(output),
        device="gpu",
        **more,
    )


_SAMPLES = {
    "prompts": TEST_PROMPTS,
    "generations": _table("generations", "structured"),
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
        after=(PARAMS_CHECKED,),
        writes={name: f"{{artifacts}}/prompts/{name}.parquet" for name in ("train", "unseen", "ood", "open", "mcq")},
        records="{artifacts}/prompts/provenance.json",
        parameters=(
            "seed",
            "prompts.families",
            "prompts.train_prompts_per_family",
            "prompts.unseen_selection",
            "prompts.ood_selection",
        ),
        keeps=False,
    ),
    Stage(
        name="build_novelty_prompts",
        description="NoveltyBench's prompts, or those of a file",
        module="build_novelty_prompts",
        over="axes.novelty",
        sources=("{dag.novelty_source}",),
        after=(PARAMS_CHECKED,),
        writes={"output": "{artifacts}/prompts/novelty.parquet"},
        records="{artifacts}/prompts/novelty.provenance.json",
        parameters=("prompts.novelty",),
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
        parameters=(*TOKENIZER, "models.{model}.chat"),
    ),
    Stage(
        name="preflight",
        description="The engine samples the model's own law, and adapters take effect, before anything costly runs",
        module="preflight",
        over="models",
        chosen_by=("model",),
        reads={"model_report": MODEL_REPORT, "prompts": ("{artifacts}/prompts/ood.parquet",)},
        writes={"output": PREFLIGHT, "details": "{artifacts}/preflight/{model}.details.json"},
        records="{artifacts}/preflight/{model}.provenance.json",
        parameters=(
            "seed",
            "engine.kind",
            *MODEL,
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
    _training(
        "soft",
        "Soft-target adapter (Eq. 3)",
        {"tries": "{artifacts}/tries/{tokenizer}/soft"},
        ("train.soft",),
    ),
    _training(
        "hard",
        "Hard-target adapter (Eq. 4)",
        {"targets": "{dag.hard_source}"},
        ("train.hard", "discretize.hard.max_bins", "discretize.hard.num_decimals"),
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
    _generation("structured", "Answers to the structured-sampling prompts"),
    _generation("open", "Answers to the open-ended prompts"),
    _generation("mcq", "Multiple-choice questions"),
    _generation("novelty", "Responses to the NoveltyBench prompts"),
    _scoring(
        "score_structured",
        "Forward KL along sampled trie paths",
        "structured",
        {"prompts": TEST_PROMPTS, "tries": _TRIES},
        {"output": _table("scores", "structured")},
        ("seed", "evaluate.paths_per_prompt", "discretize.eval.num_decimals"),
        "path_scores",
    ),
    _scoring(
        "exact_structured",
        "The model's exact law over answers",
        "structured",
        {"prompts": TEST_PROMPTS, "tries": _TRIES},
        {
            "output": _table("exact", "structured"),
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
    _evaluation(
        "structured",
        "Metrics of structured sampling",
        {
            **_SAMPLES,
            "scores": _table("scores", "structured"),
            "exact": _table("exact", "structured"),
            "exact_cdf": "{artifacts}/exact/structured/{model}/{condition}.cdf.parquet",
        },
        _STRUCTURED,
    ),
    _evaluation(
        "structured",
        "Sample-level metrics of structured sampling",
        _SAMPLES,
        (*_STRUCTURED, _BASELINE),
        over="baselines",
        name="eval_structured_baseline",
    ),
    _scoring(
        "score_open",
        "First-step distributions of the open-ended prompts",
        "open",
        {"prompts": AXIS_PROMPTS["open"]},
        {"output": _table("scores", "open")},
        (),
        "first_steps",
    ),
    _evaluation(
        "open",
        "Support sizes, unique outputs and entropies of open-ended answers",
        {
            "prompts": AXIS_PROMPTS["open"],
            "generations": _table("generations", "open"),
            "scores": _table("scores", "open"),
        },
        _OPEN,
    ),
    _evaluation(
        "open",
        "Unique outputs and entropies of open-ended answers",
        {"prompts": AXIS_PROMPTS["open"], "generations": _table("generations", "open")},
        (*_OPEN, _BASELINE),
        over="baselines",
        name="eval_open_baseline",
    ),
    _evaluation(
        "mcq",
        "Parse rates and answer-position balance",
        {"prompts": AXIS_PROMPTS["mcq"], "generations": _table("generations", "mcq")},
    ),
    _novelty(
        "partition_novelty",
        "Classes of NoveltyBench responses that say the same",
        "partitions",
        reads={"prompts": AXIS_PROMPTS["novelty"], "generations": _table("generations", "novelty")},
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
    _evaluation(
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
    _scoring(
        "score_retention",
        "Items of the tiny tasks, right or wrong",
        "retention",
        {},
        {"output": _table("scores", "retention")},
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
    _evaluation(
        "retention",
        "gp-IRT, and what is kept of the base checkpoint",
        {
            "scores": _table("scores", "retention"),
            "base_scores": "{artifacts}/scores/retention/{model}/base.parquet",
            "irt": "{artifacts}/retention/irt.npz",
        },
        ("retention.gsm8k", "retention.tasks", "tests.significance", "tests.accuracy_margin"),
    ),
    _scoring(
        "score_paloma",
        "Log-likelihoods of PALOMA's documents",
        "paloma",
        {},
        {"output": _table("scores", "paloma")},
        tuple(
            f"paloma.{name}"
            for name in ("source", "revision", "split", "slices", "window", "stride", "bos", "max_documents_per_slice")
        ),
        "paloma",
        ("paloma.tokens_per_pass",),
        ("{dag.paloma_source}",),
    ),
    _evaluation(
        "paloma",
        "Perplexity and bits per byte by slice, paired with the base checkpoint",
        {
            "scores": _table("scores", "paloma"),
            "base_scores": "{artifacts}/scores/paloma/{model}/base.parquet",
        },
        ("tests.significance", "tests.bits_per_byte_margin"),
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
            "axes",
            "models",
            "tests",
            "generate",
            "seed",
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
