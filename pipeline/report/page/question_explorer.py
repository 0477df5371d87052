"""The data behind the page's explorer of questions: people's answers and every model's, question by question."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pipeline.artifacts.storage import read_table
from pipeline.core.semantics.credal_metrics import MEMBER_COLUMNS
from pipeline.report.evaluations import Evaluations, rows_of
from pipeline.report.figures.answers import ENTROPIES, POINTS, evenly_spaced

MAX_QUESTIONS = 200
"""Most questions on a page."""
LONG_BEGINNING = 40
"""Characters that all texts begin with, from which on they are not repeated in the list of questions."""
SHOWN_CLASSES = 12
"""Most of people's classes in a question's bars."""
CORNERS = 3
"""Classes of a question whose laws are drawn in a triangle."""


def question_payload(evaluations: Evaluations, models: Mapping[str, str], conditions: Sequence[str]) -> dict[str, Any]:
    """Everything that the explorer of questions draws, as JSON values.

    Args:
        evaluations: What there is.
        models: Model name -> display name.
        conditions: Base and the methods, in order.

    Returns:
        ``models`` (those with answers) and ``conditions``, ``questions`` (text by prompt id), ``labels`` (the same
        without a long beginning that all share, such as examples), ``omitted``, how many were left out for size, and
        ``results[model][condition]``: ``bars``, ``simplex`` and ``entropies`` by prompt id, and ``reliability`` by kind
        of label. No questions where the axis human was not evaluated.
    """
    texts: dict[str, str] = {}
    results: dict[str, dict[str, Any]] = {}
    found = [(model, condition) for model in models for condition in conditions]
    for model, condition in found:
        path = evaluations.path("human", model, condition, "classes.parquet")
        if path is not None:
            classes = read_table(path, ("prompt_id", "label", "people", "answers"))
            results.setdefault(model, {})[condition] = {"bars": _bars(classes)}
            texts = texts or _texts(evaluations, model, condition, classes)
    places = evenly_spaced(len(texts), MAX_QUESTIONS)
    shown = {name: texts[name] for name in np.array(list(texts), dtype=object)[places]} if texts else {}
    for model, by_condition in results.items():
        triangles = _triangles(evaluations, model, list(by_condition))
        for condition, own in by_condition.items():
            own["bars"] = {name: bars for name, bars in own["bars"].items() if name in shown}
            own["simplex"] = {name: laws for name, laws in triangles.get(condition, {}).items() if name in shown}
            own["entropies"] = {
                name: values for name, values in _entropies(evaluations, model, condition).items() if name in shown
            }
            own["reliability"] = _reliability(evaluations, model, condition)
    return {
        "models": {model: models[model] for model in results},
        "conditions": [name for name in conditions if any(name in own for own in results.values())],
        "questions": shown,
        "labels": _labels(shown),
        "omitted": len(texts) - len(shown),
        "results": results,
    }


def _texts(evaluations: Evaluations, model: str, condition: str, classes: pd.DataFrame) -> dict[str, str]:
    """The questions by prompt id; of an evaluation from before their texts were kept, the ids."""
    path = evaluations.path("human", model, condition, "per_prompt.parquet")
    table = pd.DataFrame() if path is None else read_table(path, ("prompt_id",))
    known = dict(zip(table["prompt_id"], table["prompt"], strict=True)) if "prompt" in table else {}
    return {name: known.get(name, name) for name in classes["prompt_id"].unique()}


def _labels(texts: Mapping[str, str]) -> dict[str, str]:
    """What tells the texts apart, by the same names."""
    words = [text.split(" ") for text in texts.values()]
    shared = " ".join(
        column[0] for column in itertools.takewhile(lambda column: len(set(column)) == 1, zip(*words, strict=False))
    )
    cut = len(shared) if len(words) > 1 and len(shared) > LONG_BEGINNING else 0
    return {name: text[cut:].strip() or text for name, text in texts.items()}


def _shares(counts: pd.Series) -> dict[str, float]:
    """Rounded shares by label; empty without any count."""
    return (counts / counts.sum()).round(4).to_dict() if counts.sum() else {}


def _bars(classes: pd.DataFrame) -> dict[str, dict[str, dict[str, float]]]:
    """Shares of people and of answers by class, by prompt id, people's most frequent classes first."""
    bars = {}
    for prompt_id, own in classes.groupby("prompt_id", sort=False):
        table = own.set_index("label").sort_values("people", ascending=False, kind="stable")
        people, answers = (_shares(table[name]) for name in ("people", "answers"))
        kept = list(people)[:SHOWN_CLASSES]
        bars[prompt_id] = {
            "people": {label: people[label] for label in kept},
            "answers": {label: answers.get(label, 0.0) for label in kept},
        }
    return bars


def _triangles(
    evaluations: Evaluations, model: str, conditions: Sequence[str]
) -> dict[str, dict[str, dict[str, list[Any]]]]:
    """By condition and prompt id, the laws of the questions that have three classes under all conditions together.

    Of each question: ``labels``, ``people``, and the laws of ``settings`` and ``variants``, each a law with its name.
    """
    table = evaluations.stacked("credal", "members", MEMBER_COLUMNS, [model], conditions)
    table = table[table["count"] > 0]
    triangles: dict[str, dict[str, dict[str, list[Any]]]] = {}
    for prompt_id, own in table.groupby("prompt_id", sort=False):
        people = rows_of(own, kind="people")
        labels = list(dict.fromkeys([*people["label"], *sorted(own["label"].unique())]))
        if len(labels) != CORNERS or people.empty:
            continue
        for (condition, kind, member), rows in own.groupby(["condition", "kind", "member"], sort=False):
            law = rows.set_index("label")["count"].reindex(labels, fill_value=0)
            entry = triangles.setdefault(condition, {}).setdefault(prompt_id, {"labels": labels})
            shares = list(_shares(law).values())
            if kind == "people":
                entry["people"] = shares
            else:
                entry.setdefault(kind, []).append({"name": member, "law": shares})
    return triangles


def _entropies(evaluations: Evaluations, model: str, condition: str) -> dict[str, list[float]]:
    """Entropies of people's answers and of the model's by prompt id, over ln of the number of people's classes."""
    table = evaluations.stacked("uncertainty", "per_prompt", ("prompt_id", "classes", *ENTROPIES), [model], [condition])
    values = table[[*ENTROPIES, "classes"]].astype(float)
    scaled = values[list(ENTROPIES)].div(np.log(values["classes"].where(values["classes"] > 1)), axis=0).round(4)
    pairs = zip(table["prompt_id"], scaled.to_numpy().tolist(), strict=True)
    return {name: pair for name, pair in pairs if all(map(math.isfinite, pair))}


def _reliability(evaluations: Evaluations, model: str, condition: str) -> dict[str, dict[str, list[float]]]:
    """Columns of the reliability diagram by kind of label, in order of confidence; bins without questions left out."""
    points = evaluations.stacked("semcal", "reliability", POINTS, [model], [condition])
    points = points[(points["split"] == "all") & (points["size"] > 0)].sort_values("confidence")
    names = [name for name in POINTS if name not in ("split", "target")]
    return {
        str(target): {name: own[name].astype(float).round(4).tolist() for name in names}
        for target, own in points.groupby("target", sort=False)
    }
