"""Inv-Entropy (arXiv:2506.09684): do answers spread further than the perturbations of a question do?

Similarities (|cosine| of counts of three characters) of the question with its n perturbations, and of one answer to
each, make Markov chains on them, P_x and P_y; Inv-Entropy is - sum of c ln c over the diagonal c of P_y P_x, in nats.
Identical answers give the entropy of a uniform start after one step of P_x; the excess over that is what answers add.
It grows with their dispersion only while the terms are below 1 / e.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.special import entr

from pipeline.artifacts.generations import GENERATION_COLUMNS
from pipeline.artifacts.storage import rows_by_prompt
from pipeline.axes.evaluation import ModelEvaluation
from pipeline.axes.inv_entropy.perturb import read_perturbations
from pipeline.axes.questions.answers import (
    Answers,
    answer_is_right,
    answer_rows,
    answer_texts,
    auroc_of,
    read_partitions,
)
from pipeline.axes.questions.question import Question, read_questions
from pipeline.config.conditions import answer_protocol
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.summarise import mean_of
from pipeline.dag.execution import StageRun, command_line

GRAM = 3
MEANS = ("excess_nats", "input_dispersion", "output_dispersion")
SCORES = ("excess_nats", "input_dispersion")
"""Whose AUROC is reported. That of the requests' dispersion knows nothing of the answers: the excess has to beat it."""
STATISTICS = {
    **{f"inv_{name}": mean_of(name) for name in MEANS},
    **{f"inv_{name}_auroc": auroc_of(name) for name in SCORES},
}


def similarities(texts: Sequence[str]) -> np.ndarray:
    """|cosine| of how often each run of GRAM characters is in each of n texts: float64[n, n], 1 on the diagonal."""
    places: dict[str, int] = {}
    rows = []
    for text in texts:
        padded = f" {' '.join(text.lower().split())} "
        grams = [padded[start : start + GRAM] for start in range(len(padded) - GRAM + 1)]
        rows.append([places.setdefault(gram, len(places)) for gram in grams])
    counts = np.array([np.bincount(row, minlength=len(places)) for row in rows], dtype=np.float64)
    lengths = np.linalg.norm(counts, axis=1, keepdims=True)
    unit = counts / np.where(lengths > 0, lengths, 1)
    alike = np.clip(np.abs(unit @ unit.T), 0, 1)
    np.fill_diagonal(alike, 1)
    return alike


def dispersion(similarity: np.ndarray) -> np.ndarray:
    """1 less the mean similarity of two different states of float64[..., m, m], 1 on the diagonal."""
    size = similarity.shape[-1]
    pairs = similarity.sum(axis=(-2, -1)) - np.trace(similarity, axis1=-2, axis2=-1)
    return 1 - pairs / (size * (size - 1))


def inverse_entropy(inputs: np.ndarray, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inv-Entropy float64[...] and its excess, in nats, of similarities of the m prompts, float64[m, m], and of one
    answer to each, float64[..., m, m]."""
    forward, backward = (side / side.sum(axis=-1, keepdims=True) for side in (inputs, outputs))
    entropy = entr(np.einsum("...ij,ji->...i", backward, forward)).sum(axis=-1)
    return entropy, entropy - entr(forward.mean(axis=0)).sum()


def mean_measures(
    inputs: np.ndarray, answers: np.ndarray, similarity: np.ndarray, *, draws: int, rng: np.random.Generator
) -> dict[str, float]:
    """MEANS over draws of one answer to each of m prompts: ``answers``, int[m, r], says which of t texts each is;
    ``similarity`` is that of the texts, float64[t, t]."""
    chosen = rng.integers(answers.shape[1], size=(draws, len(answers)))
    drawn = answers[np.arange(len(answers)), chosen]
    outputs = similarity[drawn[:, :, None], drawn[:, None, :]]
    values = inverse_entropy(inputs, outputs)[1].mean(), dispersion(inputs), dispersion(outputs).mean()
    return dict(zip(MEANS, map(float, values), strict=True))


def main(
    run: StageRun, model: str, prompts: Path, perturbations: Path, generations: Path, partitions: Path, output: Path
) -> None:
    """Write an evaluation. An answer is right by the most frequent class of answers to the question."""
    evaluation, params, seed = ModelEvaluation(run, "inv_entropy", model), run.params, run.params.seed
    requests, draws = read_perturbations(perturbations), params.evaluate.inverse_entropy.draws
    questions = [question for question in read_questions(prompts) if question.prompt_id in requests]
    ids = [name for asked in requests.values() for name in asked]
    texts = {}
    for condition, path in evaluation.paths(generations):
        protocol, tables = answer_protocol(params, model, condition), rows_by_prompt(path, GENERATION_COLUMNS, ids)
        texts[condition] = {name: [text or "" for text in answer_texts(protocol, tables[name])] for name in ids}

    def row(question: Question, own: Answers, condition: str) -> dict[str, float]:
        name, asked = question.prompt_id, requests[question.prompt_id]
        answers = [texts[condition][request] for request in asked]
        given = list(dict.fromkeys(text for replies in answers for text in replies))
        chosen = np.array([[given.index(text) for text in replies] for replies in answers])
        alike = similarities([*asked.values(), *given])
        inputs, outputs = alike[: len(asked), : len(asked)], alike[len(asked) :, len(asked) :]
        means = mean_measures(inputs, chosen, outputs, draws=draws, rng=random_stream(seed, "draws", name))
        return {**means, "right": answer_is_right(question, own.labels, random_stream(seed, "ties", name))}

    rows = answer_rows(read_partitions(evaluation, partitions, questions), questions, row)
    evaluation.summarise(rows, STATISTICS)
    evaluation.add_tables("per_prompt", rows.assign(split="all"))
    evaluation.write(output)


if __name__ == "__main__":
    command_line()
