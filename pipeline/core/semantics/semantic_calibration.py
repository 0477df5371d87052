"""From answers to questions to reported numbers: is a model's most probable class right as often as it is probable?

B-calibration (arXiv:2511.04869) against accepted answers, where a label is 1 or 0, and against people, where the label
is the answer of one of them drawn at random, whose expectation is the share of people in the class.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd

from pipeline.core.random_streams import random_stream
from pipeline.core.semantics.calibration import (
    binned_errors,
    calibration_bins,
    consistency_band,
    refinement,
    smooth_calibration_error,
)
from pipeline.core.semantics.confidence import held_out_confidence, modal_class, modal_confidence
from pipeline.core.semantics.discrimination import auroc, prediction_rejection_ratio, risk_coverage_area
from pipeline.axes.questions.classes import right_label
from pipeline.axes.questions.question import NO_ANSWER, OTHER, Question, people_law
from pipeline.core.semantics.question_means import resamples
from pipeline.core.statistics.intervals import Estimate, metric_row, percentile_interval

Target = Literal["gold", "people"]
TARGETS = {"gold": "", "people": "people_"}
"""What is right, and what stands in the names of its metrics."""
ERRORS = ("smooth_ece", "smooth_ece_sem1", "ece", "ece_equal_mass", "classwise_smooth_ece")
"""Distances from 0, which few questions make too large: their floors are simulated, their intervals centred."""
DIFFERENCES = ("smooth_ece", "gap", "accuracy")
"""Those whose change from base is reported as well, paired by question."""


@dataclass(frozen=True)
class Predictions:
    """A model's answers to N questions, and to all M pairs of a question and a class of answers.

    Attributes:
        counts: By question, answers by class.
        first: float64[N], Sem1.
        second: float64[N], Sem2.
        labels: float64[N], of the most frequent class: 1 or 0, or the share of people in it.
        share: float64[M], a class's share of the answers.
        pair_labels: float64[M].
        question: int64[M], the pair's question.
        trials: int64[N], what a label is the mean of: 1, or the people asked.
    """

    counts: list[np.ndarray]
    first: np.ndarray
    second: np.ndarray
    labels: np.ndarray
    share: np.ndarray
    pair_labels: np.ndarray
    question: np.ndarray
    trials: np.ndarray


def label_law(question: Question, target: Target) -> dict[str, float]:
    """Probability of each class being what a label says: the right one, or one of people's; empty where unknown."""
    if target == "gold":
        right = right_label(question)
        return {} if right is None else {right: 1.0}
    return {label: share for label, share in people_law(question).items() if label != OTHER}


def question_row(question: Question, counts: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
    """A model's most frequent answer to one question and its confidence.

    Args:
        question: What was asked.
        counts: Answers by class, as ``classify`` finds them; at least two.
        rng: Of ties and halvings.

    Returns:
        prompt_id, category, num_answers, answer, sem1, sem2, gold (1 for right, NaN where nothing is) and people (the
        share of people whose answer it is, NaN where they were not asked).
    """
    values = np.array(list(counts.values()))
    answer = list(counts)[modal_class(values, rng)]
    labels = {target: law.get(answer, 0.0) if (law := label_law(question, target)) else math.nan for target in TARGETS}
    return {
        "prompt_id": question.prompt_id,
        "category": question.category,
        "num_answers": int(values.sum()),
        "answer": answer,
        "sem1": float(modal_confidence(values)),
        "sem2": float(held_out_confidence(values, rng)),
        **labels,
    }


def predictions_of(
    questions: Sequence[Question], counts: Mapping[str, Mapping[str, int]], table: pd.DataFrame, target: Target
) -> Predictions:
    """What is compared with one kind of labels, over the questions that have them.

    Args:
        questions: All questions.
        counts: Answers by class, by prompt id.
        table: Rows of ``question_row``.
        target: The kind of labels.
    """
    laws = {question.prompt_id: law for question in questions if (law := label_law(question, target))}
    people = {question.prompt_id: question.num_people for question in questions}
    own = table[table["prompt_id"].isin(laws)]
    shares, labels, places = [], [], []
    for place, prompt_id in enumerate(own["prompt_id"]):
        found, law = counts[prompt_id], laws[prompt_id]
        size = sum(found.values())
        for label in dict.fromkeys((*found, *law)):
            # No answer is no class that could be right.
            if label != NO_ANSWER:
                shares.append(found.get(label, 0) / size)
                labels.append(law.get(label, 0.0))
                places.append(place)
    return Predictions(
        [np.array(list(counts[prompt_id].values())) for prompt_id in own["prompt_id"]],
        own["sem1"].to_numpy(dtype=np.float64),
        own["sem2"].to_numpy(dtype=np.float64),
        own[target].to_numpy(dtype=np.float64),
        np.array(shares, dtype=np.float64),
        np.array(labels, dtype=np.float64),
        np.array(places, dtype=np.int64),
        np.array([1 if target == "gold" else people[prompt_id] for prompt_id in own["prompt_id"]], dtype=np.int64),
    )


def _statistics(found: Predictions, target: Target) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """Metrics by name as functions of weights float64[B, N] of the questions; float64[B]."""
    second, labels, pairs = found.second, found.labels, found.question
    edges = {kind: calibration_bins(second, labels, kind).edges for kind in ("width", "mass")}

    def mean(values: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        return lambda weights: weights @ values / weights.sum(axis=1)

    def one_by_one(
        function: Callable[[np.ndarray, np.ndarray], float],
    ) -> Callable[[np.ndarray], np.ndarray]:
        def run(weights: np.ndarray) -> np.ndarray:
            picks = [np.repeat(np.arange(len(second)), row.astype(np.int64)) for row in weights]
            return np.array([function(second[pick], labels[pick]) for pick in picks])

        return run

    statistics = {
        "accuracy": mean(labels),
        "confidence": mean(second),
        "gap": mean(second - labels),
        "smooth_ece": lambda weights: smooth_calibration_error(second, labels, weights),
        "smooth_ece_sem1": lambda weights: smooth_calibration_error(found.first, labels, weights),
        "ece": lambda weights: binned_errors(second, labels, edges["width"], weights),
        "ece_equal_mass": lambda weights: binned_errors(second, labels, edges["mass"], weights),
        "classwise_smooth_ece": lambda weights: smooth_calibration_error(
            found.share, found.pair_labels, weights[:, pairs]
        ),
    }
    if target == "gold":
        statistics["brier"] = mean((second - labels) ** 2)
        statistics["refinement"] = one_by_one(refinement)
        statistics["auroc"] = partial(auroc, second, labels > 0.5)
        statistics["risk_coverage"] = one_by_one(risk_coverage_area)
        statistics["rejection_ratio"] = partial(prediction_rejection_ratio, second, labels > 0.5)
    return statistics


def simulated_errors(found: Predictions, rng: np.random.Generator, replicates: int) -> dict[str, float]:
    """Mean of each of ERRORS for a calibrated model of the same laws and numbers of answers, questions and people.

    Of every question the law is taken to be that of the model's own answers: answers are drawn anew from it, and so
    are the labels, one right class or as many people as were asked.

    Args:
        found: The model's answers.
        rng: Of the simulation.
        replicates: Simulated models.
    """
    size = len(found.counts)
    first, second, labels = (np.zeros((replicates, size)) for _ in range(3))
    shares, pair_labels = [], []
    for place, counts in enumerate(found.counts):
        law, number = counts / counts.sum(), int(counts.sum())
        drawn = rng.multinomial(number, law, size=replicates)
        truth = rng.multinomial(int(found.trials[place]), law, size=replicates) / found.trials[place]
        first[:, place] = modal_confidence(drawn)
        second[:, place] = held_out_confidence(drawn, rng)
        labels[:, place] = truth[np.arange(replicates), modal_class(drawn, rng)]
        shares.append(drawn / number)
        pair_labels.append(truth)
    edges = {kind: calibration_bins(found.second, found.labels, kind).edges for kind in ("width", "mass")}
    values = {
        "smooth_ece": smooth_calibration_error(second, labels),
        "smooth_ece_sem1": smooth_calibration_error(first, labels),
        "ece": binned_errors(second, labels, edges["width"]),
        "ece_equal_mass": binned_errors(second, labels, edges["mass"]),
        "classwise_smooth_ece": smooth_calibration_error(*(np.hstack(each) for each in (shares, pair_labels))),
    }
    return {name: float(draws.mean()) for name, draws in values.items()}


def metric_rows(
    found: Predictions,
    base: Predictions,
    target: Target,
    *,
    seed: int,
    names: Sequence[str],
    replicates: int,
    floor_replicates: int,
) -> list[dict[str, Any]]:
    """Rows of metrics.csv against one kind of labels, and paired changes from base; none without questions.

    95% bootstrap intervals over questions, the same drawn for both sides of a change. Those of ERRORS are moved so
    that their draws have the estimate as mean: what is covered is its mean at this number of questions, to be read
    against the floor.

    Args:
        found: The model's answers.
        base: The base checkpoint's to the same questions.
        target: The kind of labels.
        seed: Root seed; ``names`` complete the streams' names.
        names: Axis, model, condition, split.
        replicates: Resamples per interval.
        floor_replicates: Simulated models behind each floor.
    """
    size = len(found.labels)
    if not size:
        return []
    rng = random_stream(seed, "bootstrap", *names, target)
    weights = resamples(size, replicates, rng)
    once = np.ones((1, size))
    floors = simulated_errors(found, random_stream(seed, "floor", *names, target), floor_replicates)
    rows, prefix = [], f"semcal_{TARGETS[target]}"
    of_base = _statistics(base, target)
    for name, statistic in _statistics(found, target).items():
        value, draws = float(statistic(once)[0]), statistic(weights)
        rows.append(metric_row(prefix + name, _estimate(name, value, draws, size), floor=floors.get(name, math.nan)))
        if name in DIFFERENCES:
            change = value - float(of_base[name](once)[0])
            changes = draws - of_base[name](weights)
            if name in ERRORS:
                changes += change - changes.mean()
            interval = percentile_interval(changes) if size > 1 else (math.nan, math.nan)
            rows.append(metric_row(f"{prefix}{name}_difference", Estimate(change, size, *interval)))
    return rows


def _estimate(name: str, value: float, draws: np.ndarray, size: int) -> Estimate:
    if size < 2 or not math.isfinite(value):
        return Estimate(value, size, undefined=int(not math.isfinite(value)))
    if name not in ERRORS:
        return Estimate(value, size, *percentile_interval(draws))
    low, high = percentile_interval(draws - (draws.mean() - value))
    return Estimate(value, size, max(0.0, low), high)


def reliability(found: Predictions, rng: np.random.Generator) -> pd.DataFrame:
    """The points of a reliability diagram of Sem2, in bins of equal width.

    Args:
        found: The model's answers.
        rng: Of the consistency bands: labels drawn from the confidences, as many as stand behind each.

    Returns:
        Columns low_edge, high_edge, size, confidence, frequency, band_low and band_high; NaN in empty bins.
    """
    bins = calibration_bins(found.second, found.labels)
    low, high = consistency_band(found.second, rng, trials=found.trials)
    columns = [bins.edges[:-1], bins.edges[1:], bins.sizes, bins.confidence, bins.frequency, low, high]
    names = ("low_edge", "high_edge", "size", "confidence", "frequency", "band_low", "band_high")
    return pd.DataFrame(dict(zip(names, columns, strict=True)))
