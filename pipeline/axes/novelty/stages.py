"""What NoveltyBench takes."""

from pipeline.dag.declaration import Stage
from pipeline.dag.stage_kinds import (
    MODEL,
    MODEL_REPORT,
    PAIR,
    PREFLIGHT,
    TOKENIZER,
    AxisStages,
    generation,
    prompts_of,
    reading,
    record,
    table,
)

PROMPTS = prompts_of("novelty")
PARTITIONS, SCORES = (f"{{artifacts}}/novelty/{{model}}/{{condition}}/{step}" for step in ("partitions", "scores"))
CLASSIFIER = ("kind", "checkpoint", "revision", "tokenizer", "tokenizer_revision", "dtype", "threshold", "max_tokens")
REWARD = ("kind", "checkpoint", "revision", "dtype", "max_length")
STAGES = AxisStages(
    build=(reading("axes.novelty.build", "NoveltyBench's prompts, or those of a file", "novelty", "axes.novelty"),),
    generate=(generation("novelty", "Responses to the NoveltyBench prompts"),),
    judge=(
        Stage(
            name="partition-novelty",
            description="Classes of NoveltyBench responses that say the same",
            module="axes.novelty.partition",
            over="asked.novelty",
            chosen_by=PAIR,
            reads={"prompts": PROMPTS, "generations": table("generations", "novelty")},
            writes={"output": PARTITIONS},
            records=record(PARTITIONS),
            parameters=tuple(f"evaluate.novelty.classifier.{name}" for name in CLASSIFIER),
            free_parameters=("evaluate.novelty.classifier.tokens_per_pass",),
            device="gpu",
            cost=lambda prices, row: prices.partition(row["model"]),
        ),
        Stage(
            name="reward-novelty",
            description="Ratings of the representatives of those classes",
            module="axes.novelty.reward",
            over="asked.novelty",
            chosen_by=PAIR,
            after=(PREFLIGHT,),
            reads={"model_report": MODEL_REPORT, "partitions": PARTITIONS},
            writes={"output": SCORES},
            records=record(SCORES),
            parameters=(*MODEL, *(f"evaluate.novelty.reward.{name}" for name in REWARD), "evaluate.novelty.patience"),
            free_parameters=(*TOKENIZER, "evaluate.novelty.reward.tokens_per_pass"),
            device="gpu",
            cost=lambda prices, row: prices.reward(row["model"]),
        ),
    ),
)
