"""Write the questions that Inv-Entropy asks, each followed by its perturbations, which are requests of their own."""

from pathlib import Path

import numpy as np

from pipeline.artifacts.prompts import read_text_prompts, write_text_prompts
from pipeline.axes.questions.question import read_questions
from pipeline.core.prompts.text import TextPrompt
from pipeline.dag.execution import StageRun, command_line


def read_perturbations(path: Path) -> dict[str, dict[str, str]]:
    """Texts by request (ID~0 and so on) and question: the question's own, then its perturbations, in file order."""
    requests: dict[str, dict[str, str]] = {}
    for prompt in read_text_prompts(path):
        requests.setdefault(prompt.category, {})[prompt.prompt_id] = prompt.text
    return requests


def main(run: StageRun, prompts: Path, output: Path) -> None:
    """Write the requests of ``prompts.perturbations``."""
    config, questions = run.params.prompts.perturbations, read_questions(prompts)
    if config.max_questions is not None and config.max_questions < len(questions):
        places = np.linspace(0, len(questions) - 1, config.max_questions).round().astype(int)
        questions = [questions[place] for place in places]
    requests = []
    for question in questions:
        texts = [template.replace("{prompt}", question.text) for template in config.templates[: config.number]]
        for number, text in enumerate(dict.fromkeys([question.text, *texts])):
            name = question.prompt_id
            requests.append(TextPrompt(f"{name}~{number}", "perturbations", name, text))
    write_text_prompts(output, requests)
    run.write_record(num_questions=len(questions), num_perturbations=len(requests) - len(questions))
    print(f"{len(questions)} questions, {len(requests) - len(questions)} perturbations")


if __name__ == "__main__":
    command_line()
