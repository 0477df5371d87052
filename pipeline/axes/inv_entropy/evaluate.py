"""Inv-Entropy: do answers spread further than the perturbations of a question do? No language model is loaded."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.artifacts.generations import GENERATION_COLUMNS, SETTING_COLUMN
from pipeline.artifacts.storage import rows_by_prompt
from pipeline.axes.evaluation import ModelEvaluation
from pipeline.axes.inv_entropy.chains import (
    GRAM,
    cosine_similarities,
    mean_measures,
    ngram_counts,
    rise_by_chance,
    rises_with_temperature,
)
from pipeline.axes.questions.answers import Answers, answer_rows, answer_texts, read_partition
from pipeline.axes.questions.artifact import read_perturbations, read_questions
from pipeline.axes.questions.discrimination import auroc_of
from pipeline.axes.questions.question import Question
from pipeline.axes.uncertainty.question import answer_is_right
from pipeline.config.conditions import answer_protocol
from pipeline.config.evaluation import DEFAULT_SETTING, SettingsGenerateConfig, SimilarityConfig
from pipeline.core.prompts.protocols import AnswerProtocol
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.summarise import Statistic, mean_of
from pipeline.dag.execution import StageRun, command_line

MEANS = ("excess_nats", "input_dispersion", "output_dispersion")
SCORES = ("excess_nats", "input_dispersion")
"""Whose AUROC is reported. That of the requests' dispersion knows nothing of the answers: the excess has to beat it."""
Texts = dict[str, dict[str, list[str]]]
"""Answers by request and setting; empty where a reply has none."""


def statistics_of(temperatures: Sequence[str]) -> dict[str, Statistic]:
    """Means, AUROC for wrong answers, and TSU of several temperatures."""
    means = {f"inv_{name}": mean_of(name) for name in MEANS}
    rises = {"inv_tsu": mean_of("rises")} if len(temperatures) > 1 else {}
    return {**means, **{f"inv_{column}_auroc": auroc_of(column) for column in SCORES}, **rises}


def _open_similarity(run: StageRun, config: SimilarityConfig) -> Callable[[Sequence[str]], np.ndarray]:
    """What makes comparable vectors float64[n, d] of n texts, recorded with all that they depend on."""
    if config.kind == "ngrams":
        run.record.add(similarity={"kind": config.kind, "characters": GRAM})
        return ngram_counts
    from pipeline.engines.judges.text_judges import embedding_identity, open_embedder

    identity = embedding_identity(config)
    run.record.add(similarity=identity)
    return open_embedder(config, identity)


def _texts(path: Path, requests: Mapping[str, Mapping[str, str]], protocol: AnswerProtocol) -> Texts:
    ids = [name for own in requests.values() for name in own]
    found: Texts = {}
    for name, table in rows_by_prompt(path, (*GENERATION_COLUMNS, SETTING_COLUMN), ids).items():
        texts = pd.Series([text or "" for text in answer_texts(protocol, table)], index=table.index)
        found[name] = {setting: texts[own.index].tolist() for setting, own in table.groupby(SETTING_COLUMN)}
    return found


def _temperatures(settings: SettingsGenerateConfig) -> list[str]:
    """Settings that differ in temperature alone, by ascending temperature, each temperature once."""
    found = {} if settings.checkpoint_defaults else {settings.temperature: DEFAULT_SETTING}
    for name, other in settings.settings.items():
        if other.top_p == settings.top_p and other.top_k is None:
            found.setdefault(other.temperature, name)
    return [found[temperature] for temperature in sorted(found)]


def main(
    run: StageRun, model: str, prompts: Path, perturbations: Path, generations: Path, partitions: Path, output: Path
) -> None:
    """Write an evaluation. An answer is right by the most frequent class of answers to the question."""
    evaluation, params, seed = ModelEvaluation(run, "inv_entropy", model), run.params, run.params.seed
    requests, temperatures = read_perturbations(perturbations), _temperatures(params.generate.perturbations)
    questions = [question for question in read_questions(prompts) if question.prompt_id in requests]
    answers = {name: read_partition(path, questions) for name, path in evaluation.paths(partitions)}
    texts = {
        name: _texts(path, requests, answer_protocol(params, model, name))
        for name, path in evaluation.paths(generations)
    }
    embed, alike = _open_similarity(run, params.evaluate.inverse_entropy.similarity), {}
    for question, asked in requests.items():
        given = dict.fromkeys(
            text for side in texts.values() for name in asked for own in side[name].values() for text in own
        )
        # Vectors of one call alone can be compared: those of all conditions are made together.
        found = cosine_similarities(embed([*asked.values(), *given]))
        size, places = len(asked), {text: place for place, text in enumerate(given)}
        alike[question] = found[:size, :size], found[size:, size:], places

    def row(question: Question, own: Answers, condition: str) -> dict[str, float]:
        inputs, outputs, places = alike[question.prompt_id]
        replies = [texts[condition][request] for request in requests[question.prompt_id]]
        found = {}
        for setting in dict.fromkeys((DEFAULT_SETTING, *temperatures)):
            chosen = np.array([[places[text] for text in each[setting]] for each in replies])
            rng, draws = random_stream(seed, "draws", question.prompt_id), params.evaluate.inverse_entropy.draws
            found[setting] = mean_measures(inputs, chosen, outputs, draws=draws, rng=rng)
        right = answer_is_right(question, own.labels, random_stream(seed, "ties", question.prompt_id))
        rises = rises_with_temperature([found[setting]["excess_nats"] for setting in temperatures])
        several = {"rises": float(rises)} if len(temperatures) > 1 else {}
        return {"right": right, **found[DEFAULT_SETTING], **several}

    rows = answer_rows(answers, questions, row)
    evaluation.summarise(rows, statistics_of(temperatures), {"inv_tsu": rise_by_chance(len(temperatures))})
    evaluation.add_tables("per_prompt", rows.assign(split="all"))
    evaluation.write(output)


if __name__ == "__main__":
    command_line()
