"""Write the questions that Inv-Entropy asks, each followed by its perturbations, which are requests of their own."""

from pathlib import Path

import numpy as np

from pipeline.axes.questions.artifact import read_questions, write_perturbations
from pipeline.dag.execution import StageRun, command_line
from pipeline.errors import ArtifactError


def main(run: StageRun, prompts: Path, output: Path) -> None:
    """Write the requests of ``prompts.perturbations``. Raises ArtifactError for a question that has none."""
    config, questions = run.params.prompts.perturbations, read_questions(prompts)
    if config.max_questions is not None and config.max_questions < len(questions):
        places = np.linspace(0, len(questions) - 1, config.max_questions).round().astype(int)
        questions = [questions[place] for place in places]
    found = []
    for question in questions:
        texts = question.variants
        if config.kind == "templates":
            texts = [template.replace("{prompt}", question.text) for template in config.templates]
        texts = [text for text in dict.fromkeys(texts[: config.number]) if text != question.text]
        if not texts:
            raise ArtifactError(
                f"prompts.perturbations.kind={config.kind}: the question {question.prompt_id} of {prompts} has no "
                "perturbations; one at least is needed"
            )
        found.append((question.prompt_id, (question.text, *texts)))
    write_perturbations(output, found)
    count = sum(len(texts) - 1 for _, texts in found)
    run.write_record(num_questions=len(found), num_perturbations=count)
    print(f"{len(found)} questions, {count} perturbations ({config.kind})")


if __name__ == "__main__":
    command_line()
