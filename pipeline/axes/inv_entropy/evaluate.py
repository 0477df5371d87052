"""Inv-Entropy: do answers spread further than the perturbations of a question do? No language model is loaded."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.artifacts.generations import GENERATION_COLUMNS, SETTING_COLUMN
from pipeline.artifacts.storage import rows_by_prompt
from pipeline.axes.inv_entropy.chains import cosine_similarities, mean_measures, rise_by_chance
from pipeline.axes.inv_entropy.similarity import open_similarity
from pipeline.axes.inv_entropy.statistics import STATISTICS, default_statistics, with_rises
from pipeline.axes.questions.answers import Answers, answer_texts
from pipeline.axes.questions.artifact import read_perturbations, read_questions
from pipeline.axes.questions.question import Question
from pipeline.axes.questions.sides import Comparison
from pipeline.axes.uncertainty.question import answer_is_right
from pipeline.config.conditions import answer_protocol
from pipeline.config.evaluation import DEFAULT_SETTING, SettingsGenerateConfig
from pipeline.config.params import BASE
from pipeline.core.prompts.protocols import AnswerProtocol
from pipeline.core.random_streams import random_stream
from pipeline.dag.execution import StageRun, command_line

Texts = dict[str, dict[str, list[str]]]
"""Answers by request and setting; empty where a reply has none."""


def _texts(path: Path, requests: Mapping[str, Mapping[str, str]], protocol: AnswerProtocol, rule: str) -> Texts:
    ids = [name for own in requests.values() for name in own]
    found: Texts = {}
    for name, table in rows_by_prompt(path, (*GENERATION_COLUMNS, SETTING_COLUMN), ids).items():
        texts = pd.Series([text or "" for text in answer_texts(protocol, table, rule)], index=table.index)
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
    run: StageRun,
    model: str,
    condition: str,
    prompts: Path,
    perturbations: Path,
    generations: Path,
    base_generations: Path,
    partitions: Path,
    base_partitions: Path,
    output: Path,
) -> None:
    """Write an evaluation directory. An answer is right by the most frequent class of answers to the question."""
    params, requests = run.params, read_perturbations(perturbations)
    settings, rule, seed = params.evaluate.inverse_entropy, params.evaluate.partition.rule, params.seed
    questions = [question for question in read_questions(prompts) if question.prompt_id in requests]
    compared = Comparison(run, "inv_entropy", model, condition, (partitions, base_partitions))
    texts = {
        name: _texts(path, requests, answer_protocol(params, model, name), rule)
        for name, path in ((BASE, base_generations), (condition, generations))
    }
    embed, alike = open_similarity(run, settings.similarity), {}
    for question in questions:
        asked = requests[question.prompt_id]
        answers = dict.fromkeys(
            text for side in texts.values() for name in asked for own in side[name].values() for text in own
        )
        # Vectors of one call alone can be compared: those of both conditions are made together.
        found = cosine_similarities(embed([*asked.values(), *answers]))
        places = {text: place for place, text in enumerate(answers)}
        size = len(asked)
        alike[question.prompt_id] = found[:size, :size], found[size:, size:], places

    def rows_of(setting: str) -> pd.DataFrame:
        def row(question: Question, answers: Answers, name: str) -> dict[str, float]:
            inputs, outputs, places = alike[question.prompt_id]
            own = [texts[name][request][setting] for request in requests[question.prompt_id]]
            chosen = np.array([[places[text] for text in replies] for replies in own])
            rng = random_stream(seed, "draws", question.prompt_id)
            right = answer_is_right(question, answers.labels, random_stream(seed, "ties", question.prompt_id))
            return {"right": right, **mean_measures(inputs, chosen, outputs, draws=settings.draws, rng=rng)}

        return compared.rows(questions, DEFAULT_SETTING, row)

    names = (DEFAULT_SETTING, *params.generate.perturbations.settings)
    by_setting = {setting: rows_of(setting) for setting in names}
    temperatures = _temperatures(params.generate.perturbations)
    rows = by_setting[DEFAULT_SETTING]
    if len(temperatures) > 1:
        rows = with_rises(rows, [by_setting[setting] for setting in temperatures])
    chance = {"inv_tsu": rise_by_chance(len(temperatures))}
    compared.add(rows, default_statistics(temperatures), chance, "all")
    for setting in params.generate.perturbations.settings:
        compared.add(by_setting[setting], STATISTICS, {}, setting)
    compared.write(output, pd.concat(compared.tables, ignore_index=True))


if __name__ == "__main__":
    command_line()
