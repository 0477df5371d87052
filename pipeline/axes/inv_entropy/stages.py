"""What Inv-Entropy takes."""

from pipeline.axes.questions.stages import PROMPTS, of_questions
from pipeline.dag.declaration import Stage
from pipeline.dag.stage_kinds import generation, prompts_of, record

(PERTURBATIONS,) = prompts_of("perturbations")
STAGES = of_questions(
    build=(
        Stage(
            name="build-prompts-perturbations",
            description="Questions with their perturbations, each a request of its own",
            module="axes.inv_entropy.perturb",
            over="axes.inv_entropy",
            reads={"prompts": PROMPTS},
            writes={"output": PERTURBATIONS},
            records=record(PERTURBATIONS),
            parameters=("prompts.perturbations",),
            keeps=False,
        ),
    ),
    generate=(generation("perturbations", "Answers to perturbed questions", over="asked.inv_entropy"),),
)
