"""Write the questions that Inv-Entropy asks, each followed by its perturbations, which are requests of their own."""

from pathlib import Path

import numpy as np

from pipeline.artifacts.prompts import read_text_prompts, write_text_prompts
from pipeline.axes.questions.question import read_questions
from pipeline.core.prompts.text import TextPrompt
from pipeline.dag.execution import StageRun, command_line
from pipeline.errors import ArtifactError


def read_perturbations(path: Path) -> dict[str, dict[str, str]]:
    """Texts by request (ID~0 and so on) and question: the question's own, then its perturbations, in file order."""
    found: dict[str, dict[str, str]] = {}
    for prompt in read_text_prompts(path):
        found.setdefault(prompt.category, {})[prompt.prompt_id] = prompt.text
    return found


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
        name = question.prompt_id
        asked = enumerate([question.text, *texts])
        found += [TextPrompt(f"{name}~{number}", "perturbations", name, text) for number, text in asked]
    write_text_prompts(output, found)
    run.write_record(num_questions=len(questions), num_perturbations=len(found) - len(questions))
    print(f"{len(questions)} questions, {len(found) - len(questions)} perturbations ({config.kind})")


if __name__ == "__main__":
    command_line()
