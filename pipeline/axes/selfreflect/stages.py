"""What summaries of a model's answers take."""

from pipeline.axes.questions.stages import GENERATIONS, PARTITIONS, PROMPTS, of_questions
from pipeline.dag.declaration import Stage
from pipeline.dag.stage_kinds import MODEL, MODEL_REPORT, PAIR, PREFLIGHT, TOKENIZER, generation, record, table

REQUESTS, SCORES = table("requests", "selfreflect"), table("scores", "selfreflect")
STAGES = of_questions(
    generate=(
        Stage(
            name="request-summaries",
            description="Requests for summaries of a model's answers to questions",
            module="axes.selfreflect.requests",
            over="asked.selfreflect",
            chosen_by=PAIR,
            reads={"prompts": PROMPTS, "generations": GENERATIONS},
            writes={"output": REQUESTS},
            records=record(REQUESTS),
            parameters=("selfreflect.test_answers", "models.{model}.chat"),
        ),
        generation("selfreflect", "Summaries of a model's answers to questions", prompts=(REQUESTS,)),
    ),
    judge=(
        Stage(
            name="score-selfreflect",
            description="A judge's laws of hidden words of answers, given summaries of others and given their list",
            module="axes.selfreflect.score",
            over="asked.selfreflect",
            chosen_by=PAIR,
            after=(PREFLIGHT,),
            reads={
                "model_report": MODEL_REPORT,
                "prompts": PROMPTS,
                "partitions": PARTITIONS,
                "requests": REQUESTS,
                "generations": table("generations", "selfreflect"),
            },
            writes={"output": SCORES},
            records=record(SCORES),
            parameters=(*MODEL, "selfreflect.judge", "selfreflect.test_answers", "selfreflect.temperature"),
            free_parameters=(*TOKENIZER, "selfreflect.tokens_per_pass"),
            device="gpu",
            cost=lambda prices, row: prices.judged_words(row["model"]),
        ),
    ),
)
