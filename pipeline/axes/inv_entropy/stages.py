"""What Inv-Entropy takes."""

from pipeline.axes.questions.stages import PROMPTS, evaluation_of_answers, of_questions
from pipeline.dag.declaration import Stage
from pipeline.dag.stage_kinds import generation, of_all_conditions, prompts_of, record

(PERTURBATIONS,) = prompts_of("perturbations")
LAW = ("temperature", "top_p", "checkpoint_defaults", "settings")
STAGES = of_questions(
    evaluation_of_answers(
        "inv_entropy",
        "Inv-Entropy of answers to perturbed questions, and whether it rises with the temperature",
        "evaluate.inverse_entropy",
        "models.{model}.chat",
        *(f"generate.perturbations.{name}" for name in LAW),
        more={
            "perturbations": PERTURBATIONS,
            "generations": of_all_conditions("generations", "perturbations"),
        },
        device="gpu",
    ),
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
    generate=(
        generation(
            "perturbations",
            "Answers to perturbed questions, at several temperatures",
            "settings",
            over="asked.inv_entropy",
        ),
    ),
)
