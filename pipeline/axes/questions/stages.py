"""What all axes of questions share: the questions, the answers to them, and the classes of answers."""

from pipeline.dag.declaration import Stage
from pipeline.dag.stage_kinds import PAIR, AxisStages, generation, prompts_of, reading, record, table

(PROMPTS,) = prompts_of("questions")
GENERATIONS, PARTITIONS = table("generations", "questions"), table("partitions", "questions")
QUESTIONS = reading(
    "axes.questions.prompt_set",
    "Questions with people's answers, accepted ones or both",
    "questions",
    "asked_once.questions",
)
ANSWERS = generation(
    "questions", "Answers to questions, under every decoding setting and in every style", "settings", "styles"
)
CLASSES = Stage(
    name="partition-questions",
    description="Classes of answers to questions that say the same",
    module="axes.questions.partition",
    over="asked.questions",
    chosen_by=PAIR,
    reads={"prompts": PROMPTS, "generations": GENERATIONS},
    writes={"output": PARTITIONS},
    records=record(PARTITIONS),
    parameters=("generate.questions.styles", "models.{model}.chat"),
    device="gpu",
)


def of_questions(
    build: tuple[Stage, ...] = (),
    generate: tuple[Stage, ...] = (),
    score: tuple[Stage, ...] = (),
    judge: tuple[Stage, ...] = (),
) -> AxisStages:
    """What an axis of questions takes: what all of them share, then its own; arguments as in ``AxisStages``."""
    return AxisStages((QUESTIONS, *build), (ANSWERS, *generate), (), score, (CLASSES, *judge))
