"""Inv-Entropy: do answers spread further than the perturbations of a question do? No language model is loaded."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.artifacts.generations import GENERATION_COLUMNS, SETTING_COLUMN
from pipeline.axes.questions.artifact import read_perturbations, read_questions
from pipeline.artifacts.storage import rows_by_prompt
from pipeline.config.conditions import answer_protocol
from pipeline.config.evaluation import DEFAULT_SETTING, SettingsGenerateConfig
from pipeline.config.params import BASE
from pipeline.core.prompts.protocols import AnswerProtocol
from pipeline.core.random_streams import random_stream
from pipeline.core.semantics.inverse_entropy import cosine_similarities
from pipeline.core.semantics.inverse_entropy_metrics import metric_rows, question_rows
from pipeline.axes.questions.question import Question
from pipeline.core.semantics.uncertainty_metrics import modal_answer_is_right
from pipeline.dag.execution import StageRun, command_line
from pipeline.stages.answer_classes import answer_texts, counts_by_setting, split_name
from pipeline.stages.evaluation_output import write_evaluation
from pipeline.stages.text_similarity import Embed, open_similarity

Answers = dict[str, dict[str, list[list[str]]]]
"""Texts of the answers to each request of a question, by question and split; empty where a reply has no answer."""


def _answers(path: Path, requests: Mapping[str, Mapping[str, str]], protocol: AnswerProtocol, rule: str) -> Answers:
    ids = [name for own in requests.values() for name in own]
    found: dict[str, dict[str, list[str]]] = {}
    for name, table in rows_by_prompt(path, (*GENERATION_COLUMNS, SETTING_COLUMN), ids).items():
        texts = pd.Series([text or "" for text in answer_texts(protocol, table, rule)], index=table.index)
        found[name] = {setting: texts[own.index].tolist() for setting, own in table.groupby(SETTING_COLUMN)}
    settings = [DEFAULT_SETTING, *(name for name in next(iter(found.values())) if name != DEFAULT_SETTING)]
    return {
        question: {split_name(setting): [found[name][setting] for name in own] for setting in settings}
        for question, own in requests.items()
    }


def _rows(
    question: Question,
    texts: Sequence[str],
    sides: Sequence[Mapping[str, Sequence[Sequence[str]]]],
    embed: Embed,
    draws: int,
    seed: int,
) -> list[list[dict]]:
    """Rows of ``question_rows`` for each side, whose answers are compared with the same vectors."""
    answers = dict.fromkeys(text for side in sides for split in side.values() for own in split for text in own)
    places = {text: place for place, text in enumerate(answers)}
    alike = cosine_similarities(embed([*texts, *answers]))
    inputs, outputs = alike[: len(texts), : len(texts)], alike[len(texts) :, len(texts) :]
    return [
        question_rows(
            inputs,
            {name: np.array([[places[text] for text in own] for own in split]) for name, split in side.items()},
            outputs,
            draws=draws,
            seed=seed,
            names=(question.prompt_id,),
        )
        for side in sides
    ]


def _temperatures(settings: SettingsGenerateConfig) -> dict[str, float]:
    """Temperatures of the splits that differ in them alone, ascending, each temperature once."""
    found = {} if settings.checkpoint_defaults else {settings.temperature: DEFAULT_SETTING}
    for name, other in settings.settings.items():
        if other.top_p == settings.top_p and other.top_k is None:
            found.setdefault(other.temperature, name)
    return {split_name(found[temperature]): temperature for temperature in sorted(found)}


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
    answers = [
        _answers(path, requests, answer_protocol(params, model, name), rule)
        for path, name in ((generations, condition), (base_generations, BASE))
    ]
    counts = [counts_by_setting(path, questions)[DEFAULT_SETTING] for path in (partitions, base_partitions)]
    embed, sides = open_similarity(run, settings.similarity), ([], [])
    for question in questions:
        name = question.prompt_id
        found = _rows(
            question, [*requests[name].values()], [side[name] for side in answers], embed, settings.draws, seed
        )
        for side, rows, own in zip(sides, found, counts, strict=True):
            right = modal_answer_is_right(question, own[name], random_stream(seed, "ties", name))
            side += [{"prompt_id": name, "category": question.category, "right": right, **row} for row in rows]
    own, base = map(pd.DataFrame, sides)
    temperatures = _temperatures(params.generate.perturbations)
    names = {"axis": "inv_entropy", "model": model, "condition": condition}
    rows = metric_rows(
        own,
        base,
        list(temperatures),
        seed=seed,
        names=tuple(names.values()),
        replicates=params.evaluate.bootstrap_replicates,
    )
    per_prompt = own.assign(temperature=own["split"].map(temperatures).astype(float))
    write_evaluation(run, output, metrics=[{**names, **row} for row in rows], failures={}, per_prompt=per_prompt)


if __name__ == "__main__":
    command_line()
