"""What structured sampling takes."""

from pipeline.dag.stage_kinds import TEST_PROMPTS, AxisStages, generation, scoring, table

DESCRIPTION = "Answers to the structured-sampling prompts"
SCORES = table("scores", "structured")
STAGES = AxisStages(
    generate=(generation("structured", DESCRIPTION, prompts=TEST_PROMPTS),),
    baselines=(generation("structured", DESCRIPTION, sampled_as="{condition}", prompts=TEST_PROMPTS),),
    score=(
        scoring(
            "score-structured",
            "Forward KL along sampled trie paths, and the model's exact law over answers",
            "structured",
            {"prompts": TEST_PROMPTS, "tries": "{artifacts}/tries/{tokenizer}/eval"},
            {"output": SCORES, **{name: SCORES.replace(".parquet", f".{name}.parquet") for name in ("exact", "cdf")}},
            (
                *("seed", "discretize.eval.num_decimals", "generate.structured.max_new_tokens"),
                *("evaluate.paths_per_prompt", "evaluate.bounds_width", "evaluate.bounds_max_positions"),
            ),
            "structured_scores",
        ),
    ),
)
