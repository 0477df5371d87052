"""What structured sampling takes."""

from pipeline.dag.stage_kinds import TEST_PROMPTS, AxisStages, baseline_generation, generation, scoring, table

TRIES = "{artifacts}/tries/{tokenizer}/eval"
DESCRIPTION = "Answers to the structured-sampling prompts"
STAGES = AxisStages(
    generate=(generation("structured", DESCRIPTION, prompts=TEST_PROMPTS),),
    baselines=(baseline_generation("structured", DESCRIPTION, TEST_PROMPTS),),
    score=(
        scoring(
            "score-structured",
            "Forward KL along sampled trie paths",
            "structured",
            {"prompts": TEST_PROMPTS, "tries": TRIES},
            {"output": table("scores", "structured")},
            ("seed", "evaluate.paths_per_prompt", "discretize.eval.num_decimals"),
            "path_scores",
        ),
        scoring(
            "exact-structured",
            "The model's exact law over answers",
            "structured",
            {"prompts": TEST_PROMPTS},
            {
                "output": table("exact", "structured"),
                "cdf": "{artifacts}/exact/structured/{model}/{condition}.cdf.parquet",
            },
            (
                "discretize.eval.num_decimals",
                "generate.structured.max_new_tokens",
                "evaluate.bounds_width",
                "evaluate.bounds_max_positions",
            ),
            "exact_law",
            step="exact",
        ),
    ),
)
