"""What all axes of questions share: the questions, the answers to them, and the classes of answers."""

from collections.abc import Mapping, Sequence
from typing import Literal

from pipeline.dag.declaration import Paths, Stage
from pipeline.dag.stage_kinds import (
    PAIR,
    AxisStages,
    evaluation,
    generation,
    of_all_conditions,
    prompts_of,
    reading,
    record,
    table,
)

(PROMPTS,) = prompts_of("questions")
GENERATIONS, PARTITIONS = table("generations", "questions"), table("partitions", "questions")
STYLES = "generate.questions.styles"
QUESTIONS = reading(
    "axes.questions.build",
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
    shares={"cache": "{artifacts}/cache/entailment.sqlite"},
    records=record(PARTITIONS),
    parameters=("evaluate.partition", STYLES, "models.{model}.chat"),
    device="gpu",
)


def of_questions(
    *stages: Stage,
    build: tuple[Stage, ...] = (),
    generate: tuple[Stage, ...] = (),
    score: tuple[Stage, ...] = (),
    judge: tuple[Stage, ...] = (),
) -> AxisStages:
    """What an axis of questions takes: what all of them share, then its own; arguments as in ``AxisStages``."""
    return AxisStages((QUESTIONS, *build), (ANSWERS, *generate), (), score, (CLASSES, *judge), stages)


def evaluation_of_answers(
    axis: str,
    description: str,
    *parameters: str,
    kinds: Sequence[str] = ("partitions",),
    more: Mapping[str, Paths] | None = None,
    device: Literal["none", "gpu"] = "none",
) -> Stage:
    """An evaluation of tables about answers to questions, and of ``more``."""
    reads: dict[str, Paths] = {"prompts": PROMPTS, **(more or {})}
    reads |= {kind: of_all_conditions(kind, "questions") for kind in kinds}
    return evaluation(axis, description, reads, parameters, device=device)
