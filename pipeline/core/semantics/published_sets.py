"""Sets as arXiv:2509.23088 publishes them: hulls of statistics of answers' diversity, not of laws (axis "credal").

A source is a decoding setting of a model, or people; each question is a point of nine statistics, three each of
meaning, words and lengths, and a source's set is the hull of its points in the three dimensions of a group. This
follows the authors' code, https://github.com/EstebanGarces/uncertainHuman, but for its noise of 1e-8, its limit to the
first 50 vertices, and sentences: an answer counts as one.

Standardised by itself, a source loses location and scale: A and 50 A + 1000 are one set. ``standardised`` by people's
mean and standard deviation keeps both.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.spatial import ConvexHull, QhullError
from scipy.spatial.distance import cdist, pdist
from scipy.stats import iqr

from pipeline.axes.questions.question import Question
from pipeline.core.statistics.intervals import Estimate, metric_row

GROUPS = {
    "semantic": ("cosine_mean", "cosine_sd", "cosine_iqr"),
    "lexical": ("type_token_ratio", "jaccard_mean", "jaccard_sd"),
    "syntactic": ("length_sd", "length_iqr", "length_range"),
}
"""The nine statistics by what they are of."""
STATISTICS = tuple(name for names in GROUPS.values() for name in names)
LEAST_ANSWERS = 5
"""Questions with fewer answers from a source are left out."""
NEAR = 1.0
"""Vertices that are nearer to each other overlap."""
SCALINGS = ("", "referenced_")
"""Parts of metrics' names: each source standardised by itself, and by people's mean and standard deviation."""


def diversity(texts: Sequence[str], similarity: np.ndarray) -> np.ndarray:
    """STATISTICS of the answers of a source to a question, float64[9].

    Words are those of the lower-case text between white space; standard deviations are over n.

    Args:
        texts: n answers, at least 2.
        similarity: (1 + cosine) / 2 of all pairs of their embeddings, float64[n, n].
    """
    cosines = 2 * (1 - similarity[np.triu_indices(len(texts), 1)])
    words = [text.lower().split() for text in texts]
    vocabulary = {word: place for place, word in enumerate(dict.fromkeys(word for own in words for word in own))}
    used = np.zeros((len(texts), max(1, len(vocabulary))), dtype=bool)
    for row, own in zip(used, words, strict=True):
        row[[vocabulary[word] for word in own]] = True
    jaccard, lengths = pdist(used, "jaccard"), np.array([len(own) for own in words])
    return np.array(
        [
            *(cosines.mean(), cosines.std(), iqr(cosines)),
            *(len(vocabulary) / max(1, lengths.sum()), jaccard.mean(), jaccard.std()),
            *(lengths.std(), iqr(lengths), np.ptp(lengths)),
        ]
    )


def people_texts(question: Question, size: int, rng: np.random.Generator) -> list[str]:
    """Answers of ``size`` of the people whose answers are in a class, or of all where they are fewer.

    As many as a model gives, because ratio of types and range grow and fall with the number. How many people gave which
    spelling of a class is not known: they are spread over its spellings evenly.
    """
    texts = [item.members[place % len(item.members)] for item in question.human for place in range(item.count)]
    return [texts[place] for place in rng.permutation(len(texts))[:size]]


def standardised(points: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Points float64[..., 9] less the reference's mean, over its standard deviation; 0 where that is 0.

    Args:
        points: Of a source, or of several.
        reference: float64[Q, 9]: the source's own as published, or people's.
    """
    deviation = reference.std(axis=0)
    varies = deviation > 1e-12
    return np.where(varies, (points - reference.mean(axis=0)) / np.where(varies, deviation, 1), 0.0)


def _hull(points: np.ndarray) -> ConvexHull | None:
    if len(points) <= points.shape[1]:
        return None
    try:
        return ConvexHull(points)
    except QhullError:
        return None


def hull_comparison(own: np.ndarray, people: np.ndarray) -> dict[str, float]:
    """Two hulls of points float64[n, d] and float64[m, d], in units of the scaled statistics.

    Returns:
        volume (own) and people_volume; overlap: the share of own vertices within NEAR of one of people's; hausdorff:
        the Hausdorff distance of the two sets of vertices. All NaN where a hull is flat or has fewer than d + 1
        points.
    """
    hulls = _hull(own), _hull(people)
    if hulls[0] is None or hulls[1] is None:
        return dict.fromkeys(("volume", "people_volume", "overlap", "hausdorff"), math.nan)
    apart = cdist(own[hulls[0].vertices], people[hulls[1].vertices])
    return {
        "volume": float(hulls[0].volume),
        "people_volume": float(hulls[1].volume),
        "overlap": float((apart.min(axis=1) < NEAR).mean()),
        "hausdorff": float(max(apart.min(axis=1).max(), apart.min(axis=0).max())),
    }


def decoding_variance(points: np.ndarray) -> tuple[float, float, float]:
    """Variance of points float64[S, Q, 9] between the means of S settings, and within settings: means over statistics.

    All settings are standardised together. Both then sum to 1 where no statistic is constant, and the part between is
    an analysis of variance's eta squared; the paper calls them epistemic and aleatoric uncertainty.

    Returns:
        Between, within, and the mean part between where settings are exchanged at random within each question.
    """
    scaled = standardised(points, points.reshape(-1, points.shape[-1]))
    between, within = scaled.mean(axis=1).var(axis=0).mean(), scaled.var(axis=1).mean()
    return float(between), float(within), float(scaled.var(axis=0).mean() / points.shape[1])


def metric_rows(
    sources: Mapping[str, np.ndarray], people: np.ndarray, left_out: int
) -> dict[str, list[dict[str, Any]]]:
    """Rows of the figures by source: of each group of statistics, and means over the groups that have both hulls.

    There are no intervals: the hull of redrawn questions lies within the hull of all.

    Args:
        sources: float64[Q, 9] by setting, the default one first.
        people: float64[Q, 9] of the same questions.
        left_out: Questions with people's answers that are not among them.

    Returns:
        Rows with the group as family; the default setting's end with the share of variance that is decoding's.
    """
    size, found = len(people), {}
    for source, points in sources.items():
        found[source] = []
        for scaling in SCALINGS:
            own = standardised(points, people if scaling else points) if size else points
            other = standardised(people, people) if size else people
            groups = {
                group: hull_comparison(own[:, 3 * place : 3 * place + 3], other[:, 3 * place : 3 * place + 3])
                for place, group in enumerate(GROUPS)
            }
            found[source] += _hull_rows(groups, scaling, size)
    between, within, chance = decoding_variance(np.stack(list(sources.values()))) if size else (math.nan,) * 3
    defined = len(sources) > 1 and between + within > 0
    share, floor = (between / (between + within), chance / (between + within)) if defined else (math.nan, math.nan)
    estimate = Estimate(share, size, undefined=left_out if defined else size + left_out)
    found[next(iter(sources))].append(metric_row("published_decoding_share", estimate, floor=floor))
    return found


def _hull_rows(groups: Mapping[str, Mapping[str, float]], scaling: str, size: int) -> list[dict[str, Any]]:
    defined = [values for values in groups.values() if math.isfinite(values["volume"])]
    names = next(iter(groups.values()))
    means = {name: float(np.mean([own[name] for own in defined])) if defined else math.nan for name in names}
    rows = []
    for family, values in {"": means, **groups}.items():
        undefined = int(not math.isfinite(values["volume"])) if family else len(groups) - len(defined)
        for name in ("volume", "overlap", "hausdorff"):
            estimate = Estimate(values[name], size, undefined=undefined)
            floor = values["people_volume"] if name == "volume" else math.nan
            rows.append(metric_row(f"published_{scaling}{name}", estimate, family=family, floor=floor))
    return rows
