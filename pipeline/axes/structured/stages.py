"""What structured sampling takes."""

from pipeline.axes.structured import AXIS
from pipeline.dag.declaration import Stage
from pipeline.dag.stage_kinds import (
    TEST_PROMPTS,
    AxisStages,
    baseline_generation,
    evaluation,
    generation,
    of_all_conditions,
    scoring,
    table,
)

DESCRIPTION = "Answers to the structured-sampling prompts"
FLOORS = "{artifacts}/floors/structured.parquet"
STAGES = AxisStages(
    generate=(generation("structured", DESCRIPTION, prompts=TEST_PROMPTS),),
    baselines=(baseline_generation("structured", DESCRIPTION, TEST_PROMPTS),),
    score=(
        scoring(
            "score-structured",
            "Forward KL along sampled trie paths",
            "structured",
            {"prompts": TEST_PROMPTS, "tries": "{scored_on}"},
            {"output": table("scores", "structured")},
            ("seed", "evaluate.paths_per_prompt", "discretize.eval.num_decimals"),
            "path_scores",
        ),
        scoring(
            "exact-structured",
            "The model's exact law over answers",
            "structured",
            {"prompts": TEST_PROMPTS, "tries": "{scored_on}"},
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
    ),
    stages=(
        Stage(
            name="floor-structured",
            description="What a perfect sampler scores at this sample size",
            module="axes.structured.floors",
            over="axes.structured",
            reads={"prompts": TEST_PROMPTS},
            writes={"output": FLOORS},
            records="{artifacts}/floors/structured.provenance.json",
            parameters=(
                "seed",
                "evaluate.floor_replicates",
                "generate.structured.num_samples",
                *(
                    f"generate.{baseline}.{name}"
                    for baseline in AXIS.baselines
                    for name in ("enabled", "num_samples", "answers_per_request")
                ),
            ),
            keeps=False,
        ),
        evaluation(
            "structured",
            "Metrics of structured sampling",
            {
                "prompts": TEST_PROMPTS,
                "generations": of_all_conditions("generations", "structured"),
                "floors": FLOORS,
                "scores": of_all_conditions("scores", "structured"),
                "exact": of_all_conditions("exact", "structured"),
            },
            (
                "evaluate.floor_replicates",
                "evaluate.token_budget",
                "models.{model}.chat",
                *(f"generate.{baseline}.answers_per_request" for baseline in AXIS.baselines),
            ),
        ),
    ),
)
