"""What laws of one's own take."""

from pipeline.dag.stage_kinds import AxisStages, generation, prompts_of, reading, scoring, table

PROMPTS = prompts_of("laws")
STAGES = AxisStages(
    build=(
        reading(
            "axes.laws.build",
            "Requests for laws of one's own: held-out templates, held-out values, and those trained on",
            "laws",
            "axes.laws",
            settings="laws",
        ),
    ),
    generate=(generation("laws", "Answers to requests for laws of one's own", sampled_as="structured"),),
    score=(
        scoring(
            "exact-laws",
            "The model's exact law over the strings of laws of one's own",
            "laws",
            {"prompts": PROMPTS},
            {"output": table("exact", "laws")},
            ("discretize.eval", "generate.structured.max_new_tokens", "evaluate.exact_max_prefixes"),
            "exact_own_laws",
        ),
    ),
)
