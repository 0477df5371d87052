"""From answers under several decoding settings to reported numbers: the set of their laws (axis "credal").

The members of the set are a model's laws over classes of answers under each setting. Beside it, how far the laws under
a question's paraphrases are from each other.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pipeline.core.semantics.agreement import total_variation
from pipeline.core.semantics.credal import (
    diameter,
    entropy,
    entropy_bounds,
    entropy_split,
    hull_distances,
    hull_volume,
    simplex_volume,
)
from pipeline.core.semantics.partition import within_people
from pipeline.core.semantics.question import Question, aligned, people_counts
from pipeline.core.semantics.question_means import paired_rows

BAND_REPLICATES = 40
"""Redrawn answers and people behind the band of each question's distance."""
ENTROPIES = (
    *("lower_entropy_nats", "upper_entropy_nats", "imprecision_nats"),
    *("total_entropy_nats", "within_entropy_nats", "between_entropy_nats"),
)
VARIANTS = "between_variants_nats"
"""Column that is undefined for a question without paraphrases."""
MEANS = {
    "distance": "credal_distance",
    "covered": "credal_covered",
    "nearest_member": "credal_nearest_member",
    **{name: f"credal_{name}" for name in ENTROPIES},
    VARIANTS: "credal_between_variants_nats",
    "diameter": "credal_diameter",
    "relative_volume": "credal_relative_volume",
    "people_within_bounds": "credal_people_within_bounds",
}
DIFFERENCES = ("distance", "between_entropy_nats", VARIANTS, "imprecision_nats")
"""Those whose change from base is reported as well, paired by question."""
EXPECTED_COVERED = 0.95
"""Share of questions covered where people's law is in every set."""


def _counts(question: Question, settings: Sequence[Mapping[str, int]]) -> tuple[np.ndarray, np.ndarray]:
    """int64[S, K] answers by setting and class, and int64[K] people, zeros where they were not asked."""
    pooled = [within_people(dict(counts), question) if question.human else dict(counts) for counts in settings]
    people, *members = aligned(people_counts(question), *pooled)
    return np.array(members), people


def question_table(
    questions: Sequence[Question],
    counts: Mapping[str, Sequence[Mapping[str, int]]],
    rng: np.random.Generator | None,
    wordings: Mapping[str, Sequence[Mapping[str, int]]] | None = None,
) -> pd.DataFrame:
    """The set of a model's laws on every question, against people's law where they were asked.

    The band of a distance: people and answers are drawn anew, as many as there are, the people from the mixture that is
    nearest to them, the answers from the members; the distance is taken again.

    Args:
        questions: What was asked.
        counts: By prompt id, answers by class under each setting; at least one answer each.
        rng: Of the bands; None leaves them out, which takes most of the time, and whether people are covered.
        wordings: By prompt id, answers by class to the question as it is and to its paraphrases, under one setting; of
            the questions that have paraphrases.

    Returns:
        prompt_id, category, num_members, num_classes, distance (NaN without people), distance_null and
        distance_null_95, covered, nearest_member, ENTROPIES, VARIANTS, diameter, relative_volume, people_entropy_nats
        and people_within_bounds.
    """
    tables = [_counts(question, counts[question.prompt_id]) for question in questions]
    laws = [_laws(members) for members, _ in tables]
    asked = [place for place, question in enumerate(questions) if question.human]
    people = {place: tables[place][1] / tables[place][1].sum() for place in asked}
    found = dict(zip(asked, hull_distances([laws[place] for place in asked], list(people.values())), strict=True))
    drawn_members, drawn_people = [], []
    for place in asked if rng is not None else ():
        members, own = tables[place]
        nearest = np.maximum(found[place][1], 0) @ laws[place]
        for _ in range(BAND_REPLICATES):
            drawn = np.array([rng.multinomial(row.sum(), law) for row, law in zip(members, laws[place], strict=True)])
            drawn_members.append(drawn / drawn.sum(axis=1, keepdims=True))
            drawn_people.append(rng.multinomial(own.sum(), nearest / nearest.sum()) / own.sum())
    distances = [distance for distance, _ in hull_distances(drawn_members, drawn_people)]
    bands = dict(zip(asked, np.split(np.array(distances), max(1, len(asked))), strict=False)) if distances else {}
    rows = []
    for place, (question, law) in enumerate(zip(questions, laws, strict=True)):
        row = {
            "prompt_id": question.prompt_id,
            "category": question.category,
            "num_members": len(law),
            "num_classes": law.shape[1],
            **_against_people(law, people.get(place), found.get(place), bands.get(place)),
            **entropy_bounds(law),
            **entropy_split(law),
            VARIANTS: _between(question, (wordings or {}).get(question.prompt_id)),
            "diameter": diameter(law),
            "relative_volume": _relative_volume(law),
        }
        inside = row["lower_entropy_nats"] <= row["people_entropy_nats"] <= row["upper_entropy_nats"]
        row["people_within_bounds"] = float(inside) if place in people else math.nan
        rows.append(row)
    return pd.DataFrame(rows)


def _laws(counts: np.ndarray) -> np.ndarray:
    return counts / counts.sum(axis=1, keepdims=True)


def _between(question: Question, wordings: Sequence[Mapping[str, int]] | None) -> float:
    """Entropy between a question's wordings, nats; NaN where it has one."""
    return entropy_split(_laws(_counts(question, wordings)[0]))["between_entropy_nats"] if wordings else math.nan


def _against_people(
    law: np.ndarray, people: np.ndarray | None, found: tuple[float, np.ndarray] | None, band: np.ndarray | None
) -> dict[str, float]:
    names = ("distance", "distance_null", "distance_null_95", "covered", "nearest_member", "people_entropy_nats")
    if people is None or found is None:
        return dict.fromkeys(names, math.nan)
    band = np.array([math.nan]) if band is None else band
    distance, limit = found[0], float(np.quantile(band, 0.95))
    nearest = float(total_variation(law, people).min())
    # What the solver leaves of a distance of 0 is no distance.
    covered = float(distance <= limit + 1e-9) if math.isfinite(limit) else math.nan
    values = (distance, float(band.mean()), limit, covered, nearest, float(entropy(people)))
    return dict(zip(names, values, strict=True))


def _relative_volume(law: np.ndarray) -> float:
    """Volume of the set over that of all laws; NaN where there are too few members or too many classes for one."""
    classes = law.shape[1]
    return hull_volume(law) / simplex_volume(classes) if len(law) >= classes >= 2 else math.nan


def metric_rows(
    per_prompt: pd.DataFrame, base: pd.DataFrame, *, seed: int, names: Sequence[str], replicates: int
) -> list[dict[str, Any]]:
    """Means over questions with 95% bootstrap intervals over questions, and paired changes from base.

    Nothing is said of paraphrases where no question has any.

    Args:
        per_prompt: From ``question_table``.
        base: The base checkpoint's on the same questions, in the same order.
        seed: Root seed of the bootstrap; ``names`` complete its streams' names.
        names: Axis, model, condition, split.
        replicates: Resamples per interval.
    """
    floors = {"distance": float(per_prompt["distance_null"].mean()), "covered": EXPECTED_COVERED}
    left_out = () if per_prompt[VARIANTS].notna().any() else (VARIANTS,)
    means = {column: metric for column, metric in MEANS.items() if column not in left_out}
    changes = [column for column in DIFFERENCES if column not in left_out]
    return paired_rows(per_prompt, base, means, changes, floors, seed=seed, names=names, replicates=replicates)
