"""The stages of the axes: what models are sampled, scored and evaluated by."""

from collections.abc import Mapping, Sequence
from typing import Literal

from pipeline.axes import AXES
from pipeline.dag.declaration import Paths, Stage
from pipeline.dag.stage_kinds import (
    AXIS_PROMPTS,
    MODEL,
    MODEL_REPORT,
    PAIR,
    PARAMS_CHECKED,
    PREFLIGHT,
    TEST_PROMPTS,
    TOKENIZER,
    evaluation,
    generation,
    of_all_conditions,
    record,
    scoring,
    table,
)


def _novelty(name: str, description: str, step: str, **more) -> Stage:
    output = f"{{artifacts}}/novelty/{{model}}/{{condition}}/{step}"
    return Stage(
        name=name,
        description=description,
        module=f"axes.novelty.{name.partition('_')[0]}",
        over="conditions.novelty",
        chosen_by=PAIR,
        writes={"output": output},
        shares={"cache": "{artifacts}/cache/novelty_scores.sqlite"},
        records=record(output),
        device="gpu",
        **more,
    )


def _of_answers(
    axis: str,
    description: str,
    *parameters: str,
    kinds: Sequence[str] = ("partitions",),
    more: Mapping[str, Paths] | None = None,
    device: Literal["none", "gpu"] = "none",
) -> Stage:
    """An evaluation of tables about answers to questions, and of ``more``."""
    reads: dict[str, Paths] = {"prompts": AXIS_PROMPTS["questions"][0], **(more or {})}
    reads |= {kind: of_all_conditions(kind, "questions") for kind in kinds}
    return evaluation(axis, description, reads, parameters, device=device)


_STYLES = "generate.questions.styles"
_TRIES = "{artifacts}/tries/{tokenizer}/eval"

AXIS_STAGES = (
    Stage(
        name="floor_structured",
        description="What a perfect sampler scores at this sample size",
        module="axes.structured.floors",
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
        step="exact",
    ),
    evaluation(
        "structured",
        "Metrics of structured sampling",
        {
            "prompts": TEST_PROMPTS,
            "generations": of_all_conditions("generations", "structured"),
            "floors": "{artifacts}/floors/structured.parquet",
            "scores": of_all_conditions("scores", "structured"),
            "exact": of_all_conditions("exact", "structured"),
        },
        (
            "evaluate.floor_replicates",
            "evaluate.token_budget",
            "models.{model}.chat",
            *(f"generate.{baseline}.answers_per_request" for baseline in AXES["structured"].baselines),
        ),
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
            "generations": of_all_conditions("generations", "open"),
            "scores": of_all_conditions("scores", "open"),
        },
        (
            "generate.open.num_samples",
            "models.{model}.chat",
            *(f"generate.{baseline}.answers_per_request" for baseline in AXES["open"].baselines),
        ),
    ),
    evaluation(
        "mcq",
        "Parse rates and answer-position balance",
        {"prompts": AXIS_PROMPTS["mcq"], "generations": of_all_conditions("generations", "mcq")},
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
            "judged": "{artifacts}/novelty/{model}",
        },
    ),
    Stage(
        name="import_irt",
        description="Item parameters of gp-IRT as plain arrays",
        module="axes.retention.import_irt",
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
            "scores": of_all_conditions("scores", "retention"),
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
        {"scores": of_all_conditions("scores", "paloma")},
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
        {"prompts": AXIS_PROMPTS["anchors"], "scores": of_all_conditions("scores", "anchors")},
    ),
    generation("laws", "Answers to requests for laws of one's own"),
    scoring(
        "exact_laws",
        "The model's exact law over the strings of laws of one's own",
        "laws",
        {"prompts": AXIS_PROMPTS["laws"]},
        {"output": table("exact", "laws")},
        ("discretize.eval", "generate.structured.max_new_tokens", "evaluate.exact_max_prefixes"),
        "exact_own_laws",
    ),
    evaluation(
        "laws",
        "Distances from laws of one's own, of answers and of the exact law",
        {
            "prompts": AXIS_PROMPTS["laws"],
            "generations": of_all_conditions("generations", "laws"),
            "exact": of_all_conditions("exact", "laws"),
        },
        ("evaluate.floor_replicates", "models.{model}.chat"),
    ),
    generation(
        "questions", "Answers to questions, under every decoding setting and in every style", "settings", "styles"
    ),
    Stage(
        name="partition_questions",
        description="Classes of answers to questions that say the same",
        module="axes.questions.partition",
        over="sampled.questions",
        chosen_by=PAIR,
        reads={"prompts": AXIS_PROMPTS["questions"][0], "generations": table("generations", "questions")},
        writes={"output": table("partitions", "questions")},
        shares={"cache": "{artifacts}/cache/entailment.sqlite"},
        records=record(table("partitions", "questions")),
        parameters=("evaluate.partition", _STYLES, "models.{model}.chat"),
        device="gpu",
    ),
    _of_answers("human", "Agreement of a model's answers with people's", "evaluate.floor_replicates", _STYLES),
    _of_answers(
        "semcal",
        "Semantic calibration, against accepted answers and people's",
        "evaluate.floor_replicates",
        _STYLES,
    ),
    _of_answers(
        "credal",
        "The sets of a model's laws under several decoding settings, against people's law",
        "generate.questions.settings",
    ),
    scoring(
        "score_questions",
        "First-token laws of answers to questions, and the entropy along sampled answers",
        "uncertainty",
        {"prompts": AXIS_PROMPTS["questions"][0], "generations": table("generations", "questions")},
        {"output": table("scores", "questions")},
        (),
        "question_steps",
        ("evaluate.tokens_per_pass",),
    ),
    _of_answers(
        "uncertainty",
        "Measures of uncertainty against people's disagreement, and against right and wrong",
        kinds=("partitions", "scores"),
    ),
    Stage(
        name="build_perturbations",
        description="Questions with their perturbations, each a request of its own",
        module="axes.inv_entropy.perturb",
        over="axes.inv_entropy",
        reads={"prompts": AXIS_PROMPTS["questions"][0]},
        writes={"output": AXIS_PROMPTS["perturbations"][0]},
        records=record(AXIS_PROMPTS["perturbations"][0]),
        parameters=("prompts.perturbations",),
    ),
    generation("perturbations", "Answers to perturbed questions, at several temperatures", "settings"),
    _of_answers(
        "inv_entropy",
        "Inv-Entropy of answers to perturbed questions, and whether it rises with the temperature",
        "evaluate.inverse_entropy",
        "models.{model}.chat",
        *(f"generate.perturbations.{name}" for name in ("temperature", "top_p", "checkpoint_defaults", "settings")),
        more={
            "perturbations": AXIS_PROMPTS["perturbations"][0],
            "generations": of_all_conditions("generations", "perturbations"),
        },
        device="gpu",
    ),
    Stage(
        name="request_summaries",
        description="Requests for summaries of a model's answers to questions",
        module="axes.selfreflect.requests",
        over="conditions.selfreflect",
        chosen_by=PAIR,
        reads={"prompts": AXIS_PROMPTS["questions"][0], "partitions": table("partitions", "questions")},
        writes={"output": AXIS_PROMPTS["selfreflect"][0]},
        records=record(AXIS_PROMPTS["selfreflect"][0]),
        parameters=("selfreflect.test_answers",),
    ),
    generation("selfreflect", "Summaries of a model's answers to questions"),
    Stage(
        name="score_selfreflect",
        description="A judge's laws of hidden words of answers, given summaries of others and given their list",
        module="axes.selfreflect.score",
        over="conditions.selfreflect",
        chosen_by=PAIR,
        after=(PREFLIGHT,),
        reads={
            "model_report": MODEL_REPORT,
            "prompts": AXIS_PROMPTS["questions"][0],
            "partitions": table("partitions", "questions"),
            "requests": AXIS_PROMPTS["selfreflect"][0],
            "generations": table("generations", "selfreflect"),
        },
        writes={"output": table("scores", "selfreflect")},
        records=record(table("scores", "selfreflect")),
        parameters=(*MODEL, "selfreflect.judge", "selfreflect.test_answers", "selfreflect.temperature"),
        free_parameters=(*TOKENIZER, "selfreflect.tokens_per_pass"),
        device="gpu",
        cost=lambda prices, row: prices.judged_words(row["model"]),
    ),
    evaluation(
        "selfreflect",
        "How well summaries carry the distribution of a model's answers",
        {
            "prompts": AXIS_PROMPTS["questions"][0],
            "scores": of_all_conditions("scores", "selfreflect"),
        },
    ),
)
