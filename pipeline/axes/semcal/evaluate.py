"""Is a model's most frequent class of answers right as often as it is probable (B-calibration, arXiv:2511.04869)?
Against people the label is the answer of one drawn at random; held-out people are scored like the model."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.fft import dct, idct

from pipeline.axes.evaluation import ModelEvaluation
from pipeline.axes.questions.answers import (
    Answers,
    answer_rows,
    answer_splits,
    auroc_of,
    class_counts,
    modal_class,
    read_partitions,
)
from pipeline.axes.questions.people import PeopleSplit, people_splits
from pipeline.axes.questions.question import OTHER, Question, read_questions, right_label
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.summarise import Statistic, mean_of
from pipeline.dag.execution import StageRun, command_line

GRID = 512
"""Points on [0, 1] that residuals are smoothed on."""
HALVINGS = 10
SPLITS = 10
"""Of people, into those asked and those held out."""
SCORES = ("confidence", "label", "brier")


def held_out_confidence(counts: np.ndarray, rng: np.random.Generator, splits: int = HALVINGS) -> np.ndarray:
    """Sem2: share of one half of the answers in the class that is most frequent in the other half, float64[...]: the
    mean over random halvings of counts int[..., K]. Of an odd number the half that chooses is the smaller."""
    counts = np.asarray(counts, dtype=np.int64)[..., None, :]
    size = counts.sum(axis=-1)
    chosen = np.zeros((*counts.shape[:-2], splits, counts.shape[-1]), dtype=np.int64)
    others, wanted = size, size // 2
    # One class after the other: what numpy's multivariate law does for a single row of counts.
    for place in range(counts.shape[-1]):
        others = others - counts[..., place]
        chosen[..., place] = rng.hypergeometric(counts[..., place], others, wanted, size=chosen.shape[:-1])
        wanted = wanted - chosen[..., place]
    agreeing = np.take_along_axis(counts - chosen, modal_class(chosen, rng)[..., None], axis=-1)[..., 0]
    return (agreeing / (size - size // 2)).mean(axis=-1)


def smooth_calibration_error(
    confidence: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """SmoothECE (Blasiok and Nakkiran, arXiv:2309.12236), float64[...], to 1e-6: integral of |mean_i of (y_i - f_i)
    K_s(t, f_i)| dt with a Gaussian K reflected at 0 and 1, at the s that it is equal to. Of confidence f and labels y
    in [0, 1] and weights, float64[..., N]."""
    residuals = np.asarray(labels, dtype=np.float64) - np.asarray(confidence, dtype=np.float64)
    weights = np.ones(residuals.shape) if weights is None else np.broadcast_arrays(weights, residuals)[0]
    residuals, sizes = residuals * weights, weights.sum(axis=-1)
    place = np.minimum((np.broadcast_to(confidence, residuals.shape) * GRID).astype(np.int64), GRID - 1)
    # Sums by place, a row for each of the leading axes.
    rows = np.arange(sizes.size).reshape(*sizes.shape, 1)
    sums = np.bincount((rows * GRID + place).ravel(), residuals.ravel(), minlength=sizes.size * GRID)
    modes = dct(sums.reshape(*sizes.shape, GRID) / sizes[..., None], type=2)
    frequencies = np.pi * np.arange(GRID)
    # smECE_s - s falls with s: from the sum of |residuals| at s = 0 to below 0 at s = 1.
    low, high = np.zeros(sizes.shape), np.ones(sizes.shape)
    for _ in range(21):
        middle = (low + high) / 2
        smoothed = idct(modes * np.exp(-((frequencies * middle[..., None]) ** 2) / 2), type=2)
        above = np.abs(smoothed).sum(axis=-1) > middle
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.where(np.abs(modes).max(axis=-1) > 0, (low + high) / 2, 0.0)


def unbiased_brier_score(counts: np.ndarray, label_law: np.ndarray) -> np.ndarray:
    """Multi-class Brier score of a sampled law, float64[...]: 1 - 2 sum_k h_k n_k / n + sum_k n_k (n_k - 1) / (n (n -
    1)) for n answers, counts int[..., K], at least two, and the law h of the label, float64[..., K]. Strictly
    proper."""
    counts = np.asarray(counts, dtype=np.float64)
    size = counts.sum(axis=-1)
    pairs = (counts * (counts - 1)).sum(axis=-1) / (size * (size - 1))
    return 1 - 2 * (counts * label_law).sum(axis=-1) / size + pairs


def predictions(
    counts: np.ndarray, label_law: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Confidence in the most frequent class, its label, and the Brier score of the whole law, float64[...] each, of
    counts int64[..., K], at least two, and the law of the label, float64[..., K]."""
    confidence, chosen = held_out_confidence(counts, rng), modal_class(counts, rng)
    label = np.take_along_axis(np.asarray(label_law, dtype=np.float64), np.asarray(chosen)[..., None], axis=-1)[..., 0]
    return confidence, label, unbiased_brier_score(counts, label_law)


def prediction(labels: Sequence[str], law: Mapping[str, float], rng: np.random.Generator) -> tuple[float, ...]:
    """``predictions`` of one question, from the class of each answer and the probability of classes being the label."""
    counts, truth = class_counts(labels, {name: share for name, share in law.items() if name != OTHER})
    return tuple(map(float, predictions(counts, truth, rng)))


def people_row(
    splits: Sequence[PeopleSplit], spellings: Sequence[str | None], rng: np.random.Generator
) -> dict[str, float]:
    """``prediction`` for every split S of people, of the model's answers and of the held-out people: confidence_S,
    label_S, held_confidence_S, held_label_S; means over splits: SCORES and floor_brier, held-out people's score.
    """
    row, scores = {}, []
    for number, split in enumerate(splits):
        own, held = (
            prediction(split.classes(given, pooled=False), split.law, rng) for given in (spellings, split.held_out[0])
        )
        row |= {f"confidence_{number}": own[0], f"label_{number}": own[1]}
        row |= {f"held_confidence_{number}": held[0], f"held_label_{number}": held[1]}
        scores.append((*own, held[2]))
    return {**row, **dict(zip((*SCORES, "floor_brier"), np.mean(scores, axis=0).tolist(), strict=True))}


def smooth_error_of(prefix: str, splits: Sequence[str]) -> Statistic:
    """The mean error over splits of people ("" for none), of rows with confidence and label of each."""
    names = [(f"{prefix}confidence{split}", f"{prefix}label{split}") for split in splits]

    def error(rows: pd.DataFrame, weights: np.ndarray) -> np.ndarray:
        return np.mean([smooth_calibration_error(*rows[[*pair]].to_numpy().T, weights) for pair in names], axis=0)

    return Statistic(tuple(name for pair in names for name in pair), error, centred=True)


PEOPLE_SPLITS = [f"_{number}" for number in range(SPLITS)]
MEANS = {"brier": "brier", "accuracy": "label", "confidence": "confidence"}
STATISTICS = {
    "gold": {
        "semcal_smooth_ece": smooth_error_of("", [""]),
        **{f"semcal_{name}": mean_of(column) for name, column in MEANS.items()},
        "semcal_auroc": auroc_of("doubt"),
    },
    "people": {
        "semcal_people_smooth_ece": smooth_error_of("", PEOPLE_SPLITS),
        **{f"semcal_people_{name}": mean_of(column) for name, column in MEANS.items()},
    },
}
"""By what a label is taken from, and metric."""
HELD_OUT_ERROR = smooth_error_of("held_", PEOPLE_SPLITS)
"""Of held-out people, from rows of ``people_row`` under one condition."""
FLOORS = {
    "semcal_smooth_ece": "floor_smooth_ece",
    "semcal_people_smooth_ece": "floor_smooth_ece",
    "semcal_people_brier": "floor_brier",
}


def simulated_floor(answers: Sequence[Sequence[str]], rng: np.random.Generator, replicates: int) -> float:
    """The mean error of a calibrated model: answers (a class each) and right class of every question drawn anew from
    the law of the model's own answers."""
    confidence, labels = np.zeros((2, replicates, len(answers)))
    for place, own in enumerate(answers):
        counts, _ = class_counts(own)
        drawn = rng.multinomial(len(own), counts / counts.sum(), size=replicates)
        truth = rng.choice(len(counts), p=counts / counts.sum(), size=replicates)
        confidence[:, place] = held_out_confidence(drawn, rng)
        labels[:, place] = modal_class(drawn, rng) == truth
    return float(smooth_calibration_error(confidence, labels).mean())


def main(run: StageRun, model: str, prompts: Path, partitions: Path, output: Path) -> None:
    evaluation, seed, settings = ModelEvaluation(run, "semcal", model), run.params.seed, answer_splits(run.params)
    questions = read_questions(prompts)
    answers = read_partitions(evaluation, partitions, questions, settings.values())

    def against_gold(question: Question, own: Answers, condition: str) -> dict[str, float]:
        rng = random_stream(seed, "halves", question.prompt_id)
        row = dict(zip(SCORES, prediction(own.labels, {str(right_label(question)): 1.0}, rng), strict=True))
        return {**row, "doubt": -row["confidence"], "right": row["label"]}

    def against_people(question: Question, own: Answers, condition: str) -> dict[str, float]:
        splits = people_splits(question, len(own.spellings), seed=seed, number=SPLITS)
        return people_row(splits, own.spellings, random_stream(seed, "halves", question.prompt_id))

    right, asked = ([q for q in questions if q.gold], [q for q in questions if q.human])
    for split, setting in settings.items():
        for target, chosen, row in (("gold", right, against_gold), ("people", asked, against_people)):
            if not chosen:
                continue
            rows = answer_rows(answers, chosen, row, setting)
            for condition, own in rows.groupby("condition", sort=False):
                if target == "people":
                    floor = float(HELD_OUT_ERROR.function(own, np.ones(len(own))))
                else:
                    labels = [answers[condition][setting][name].labels for name in own["prompt_id"]]
                    rng = random_stream(seed, "floor", model, condition, split)
                    floor = simulated_floor(labels, rng, run.params.evaluate.floor_replicates)
                rows.loc[own.index, "floor_smooth_ece"] = floor
            evaluation.summarise(rows, STATISTICS[target], FLOORS, split, [target])
            shown = rows[["prompt_id", "condition", *SCORES]]
            evaluation.add_tables("per_prompt", shown.assign(split=split, target=target))
    evaluation.write(output)


if __name__ == "__main__":
    command_line()
