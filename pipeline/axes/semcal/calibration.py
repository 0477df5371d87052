"""Is a model's most probable class of answers right as often as it is probable (B-calibration, arXiv:2511.04869)?

Against accepted answers a label is 1 or 0. Against people it is the answer of one of them drawn at random, whose
expectation is the share of people in the class; held-out people are scored like the model.
"""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy.fft import dct, idct

from pipeline.axes.questions.answers import class_counts
from pipeline.axes.questions.confidence import held_out_confidence, modal_class
from pipeline.axes.questions.discrimination import auroc_of
from pipeline.axes.questions.people import PeopleSplit
from pipeline.axes.questions.question import OTHER
from pipeline.core.statistics.summarise import Statistic, mean_of

BINS = 10
EDGES = np.linspace(0, 1, BINS + 1)
GRID = 512
"""Points on [0, 1] that residuals are smoothed on."""
PEOPLE_SPLITS = 10
"""Splits of people behind calibration against them."""
PREFIXES = {"gold": "", "people": "people_"}
"""Of the names of metrics, by what a label is taken from."""
SCORES = ("confidence", "label", "brier")
FLOORS = {
    "semcal_smooth_ece": "floor_smooth_ece",
    "semcal_people_smooth_ece": "floor_smooth_ece",
    "semcal_people_brier": "floor_brier",
}
_SPLITS = [f"_{number}" for number in range(PEOPLE_SPLITS)]


def calibration_bins(confidence: np.ndarray, labels: np.ndarray) -> pd.DataFrame:
    """The filled ones of BINS bins of equal width, [0, 1/B], (1/B, 2/B], ...: size, mean confidence and frequency."""
    place = np.searchsorted(EDGES[1:-1], confidence)
    table = pd.DataFrame({"size": 1, "confidence": confidence, "frequency": labels}).groupby(place)
    return table.agg({"size": "sum", "confidence": "mean", "frequency": "mean"}).reset_index(drop=True)


def smooth_calibration_error(
    confidence: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """SmoothECE (Blasiok and Nakkiran, arXiv:2309.12236): no bins, and a bandwidth that the data choose.

    smECE_s = integral of |mean_i of (y_i - f_i) K_s(t, f_i)| dt with a Gaussian K reflected at 0 and 1, at the s that
    it is equal to. The reflected kernel is the heat kernel with closed ends, which the cosine transform turns into a
    product.

    Args:
        confidence: float64[..., N] in [0, 1].
        labels: float64[..., N] in [0, 1].
        weights: float64[..., N], how often each prediction counts; None for once.

    Returns:
        float64[...], to 1e-6.
    """
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
    """Multi-class Brier score of a sampled law, unbiased by its n answers: float64[...] between 0 and 2.

    1 - 2 sum_k h_k n_k / n + sum_k n_k (n_k - 1) / (n (n - 1)) for counts int[..., K], at least two, and the law h of
    the label, float64[..., K]. Strictly proper: no model gains by damaging its law.
    """
    counts = np.asarray(counts, dtype=np.float64)
    size = counts.sum(axis=-1)
    pairs = (counts * (counts - 1)).sum(axis=-1) / (size * (size - 1))
    return 1 - 2 * (counts * label_law).sum(axis=-1) / size + pairs


def predictions(
    counts: np.ndarray, label_law: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Confidence in the most frequent class, its label, and the Brier score of the whole law, float64[...] each.

    Of counts int64[..., K] by class, at least two, and the probability of each class being the label, float64[..., K].
    An answer in no class is a class of its own.
    """
    confidence, chosen = held_out_confidence(counts, rng), modal_class(counts, rng)
    label = np.take_along_axis(np.asarray(label_law, dtype=np.float64), np.asarray(chosen)[..., None], axis=-1)[..., 0]
    return confidence, label, unbiased_brier_score(counts, label_law)


def prediction(labels: Sequence[str], law: Mapping[str, float], rng: np.random.Generator) -> tuple[float, float, float]:
    """``predictions`` of one question, from the class of each answer and the probability of classes being the label."""
    counts, truth = class_counts(labels, {name: share for name, share in law.items() if name != OTHER})
    return tuple(map(float, predictions(counts, truth, rng)))


def gold_row(labels: Sequence[str], right: str, rng: np.random.Generator) -> dict[str, float]:
    """``prediction`` from the class of each answer, against the right one: SCORES, and doubt and right for an AUROC."""
    row = dict(zip(SCORES, prediction(labels, {right: 1.0}, rng), strict=True))
    return {**row, "doubt": -row["confidence"], "right": row["label"]}


def people_row(
    splits: Sequence[PeopleSplit], spellings: Sequence[str | None], rng: np.random.Generator
) -> dict[str, float]:
    """``prediction`` for every split of people, of the model's answers and of the held-out people.

    Returns:
        confidence_S, label_S, held_confidence_S and held_label_S for split S; means over splits: SCORES, and
        floor_brier, held-out people's Brier score.
    """
    row, scores = {}, []
    for number, split in enumerate(splits):
        (held_out,) = split.held_out
        own = prediction(split.classes(spellings, pooled=False), split.law, rng)
        held = prediction(split.classes(held_out, pooled=False), split.law, rng)
        row |= {f"confidence_{number}": own[0], f"label_{number}": own[1]}
        row |= {f"held_confidence_{number}": held[0], f"held_label_{number}": held[1]}
        scores.append((*own, held[2]))
    return {**row, **dict(zip((*SCORES, "floor_brier"), np.mean(scores, axis=0).tolist(), strict=True))}


def statistics_against(target: str) -> dict[str, Statistic]:
    """By metric, of rows of ``gold_row`` or ``people_row``; errors against people are means over splits."""
    splits, areas = ([""], {"auroc": auroc_of("doubt")}) if target == "gold" else (_SPLITS, {})
    errors = {"smooth_ece": _error_over(splits)}
    means = {"brier": mean_of("brier"), "accuracy": mean_of("label"), "confidence": mean_of("confidence")}
    return {f"semcal_{PREFIXES[target]}{name}": found for name, found in {**errors, **means, **areas}.items()}


def _error_over(splits: Sequence[str]) -> Statistic:
    pairs = [(f"confidence{split}", f"label{split}") for split in splits]

    def over_splits(rows: pd.DataFrame, weights: np.ndarray) -> np.ndarray:
        sides = [(rows[one].to_numpy(), rows[other].to_numpy()) for one, other in pairs]
        return np.mean([smooth_calibration_error(*side, weights) for side in sides], axis=0)

    return Statistic(tuple(itertools.chain.from_iterable(pairs)), over_splits, centred=True)


def people_floors(rows: pd.DataFrame) -> dict[str, float]:
    """floor_smooth_ece: what held-out people score, of rows of ``people_row`` under one condition."""
    sides = [(rows[f"held_confidence{split}"], rows[f"held_label{split}"]) for split in _SPLITS]
    return {"floor_smooth_ece": float(np.mean([smooth_calibration_error(*side) for side in sides]))}


def simulated_floors(answers: Sequence[Sequence[str]], rng: np.random.Generator, replicates: int) -> dict[str, float]:
    """floor_smooth_ece: the mean of a calibrated model of the same laws, against accepted answers.

    Of every question the law is taken to be that of the model's own answers (``answers``, a class each): answers and
    the right class are drawn from it anew.
    """
    confidence, labels = (np.zeros((replicates, len(answers))) for _ in range(2))
    for place, own in enumerate(answers):
        counts, _ = class_counts(own)
        drawn = rng.multinomial(len(own), counts / counts.sum(), size=replicates)
        truth = rng.choice(len(counts), p=counts / counts.sum(), size=replicates)
        confidence[:, place] = held_out_confidence(drawn, rng)
        labels[:, place] = modal_class(drawn, rng) == truth
    return {"floor_smooth_ece": float(smooth_calibration_error(confidence, labels).mean())}


def calibration_verdict(error: Mapping[str, float], score: Mapping[str, float]) -> str:
    """Whether a condition is calibrated better than base: "better", "worse" or "not shown to differ".

    From the rows of a calibration error and of the Brier score. Better is a smaller error *and* a Brier score that does
    not rise: a model that answers nonsense has an error near 0, and a Brier score of a fair guess or worse.
    """
    if error["change_low"] > 0 or score["change_low"] > 0:
        return "worse"
    return "better" if error["change_high"] < 0 and score["change"] <= 0 else "not shown to differ"
