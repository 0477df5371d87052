"""Write the questions that Inv-Entropy asks, each followed by its perturbations, which are requests of their own."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from pipeline.axes.questions.artifact import read_questions, write_perturbations
from pipeline.config.questions import GeneticConfig
from pipeline.core.random_streams import random_stream
from pipeline.core.semantics.inverse_entropy import cosine_similarities
from pipeline.core.semantics.perturbation import GeneticSearch, genetic_perturbations, templated
from pipeline.axes.questions.question import Question
from pipeline.dag.execution import StageRun, command_line
from pipeline.errors import ArtifactError, DomainError
from pipeline.sources.lexicon import read_lexicon
from pipeline.stages.text_similarity import open_similarity

KEY = "prompts.perturbations"
Perturb = Callable[[Question], Sequence[str]]


def _genetic(run: StageRun, config: GeneticConfig, number: int) -> Perturb:
    lexicon = read_lexicon(Path(config.lexicon))
    embed = open_similarity(run, config.similarity)
    settings = GeneticSearch(config.population, config.mutation_rate, config.least_similarity)

    def perturb(question: Question) -> Sequence[str]:
        def closeness(texts: Sequence[str]) -> np.ndarray:
            return cosine_similarities(embed([question.text, *texts]))[0, 1:]

        rng = random_stream(run.params.seed, "perturbations", question.prompt_id)
        return genetic_perturbations(question.text, lexicon, closeness, number, settings, rng)

    return perturb


def main(run: StageRun, prompts: Path, output: Path) -> None:
    """Write the requests of ``prompts.perturbations``. Raises ArtifactError for a question that has none."""
    config = run.params.prompts.perturbations
    kinds: dict[str, Callable[[], Perturb]] = {
        "templates": lambda: lambda question: templated(question.text, config.templates, config.number),
        "variants": lambda: lambda question: question.variants[: config.number],
        "genetic": lambda: _genetic(run, config.genetic, config.number),
    }
    perturb = kinds[config.kind]()
    questions = read_questions(prompts)
    if config.max_questions is not None and config.max_questions < len(questions):
        places = np.linspace(0, len(questions) - 1, config.max_questions).round().astype(int)
        questions = [questions[place] for place in places]
    found = []
    for question in questions:
        where = f"{KEY}.kind={config.kind}: the question {question.prompt_id} of {prompts} has no perturbations"
        try:
            texts = [text for text in dict.fromkeys(perturb(question)) if text != question.text]
        except DomainError as error:
            raise ArtifactError(f"{where}: {error}") from None
        if not texts:
            raise ArtifactError(f"{where}; one at least is needed")
        found.append((question.prompt_id, (question.text, *texts)))
    write_perturbations(output, found)
    count = sum(len(texts) - 1 for _, texts in found)
    run.write_record(num_questions=len(found), num_perturbations=count)
    print(f"{len(found)} questions, {count} perturbations ({config.kind})")


if __name__ == "__main__":
    command_line()
