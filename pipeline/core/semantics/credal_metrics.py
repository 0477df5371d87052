"""From answers to reported numbers: the set of a model's laws, members of one kind at a time (axis "credal").

The members are laws over classes of answers: of one model under several decoding settings, to several wordings of a
question, under several conditions, or of several seeds.
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
from pipeline.axes.questions.classes import within_people
from pipeline.axes.questions.question import Question, aligned, people_counts
from pipeline.core.semantics.question_means import paired_rows

BAND_REPLICATES = 40
"""Redrawn answers and people behind the band of each question's distance."""
ENTROPIES = (
    *("lower_entropy_nats", "upper_entropy_nats", "imprecision_nats"),
    *("total_entropy_nats", "within_entropy_nats", "between_entropy_nats"),
)
MEMBER_COLUMNS = ("prompt_id", "kind", "member", "label", "count")
"""Of a table of answers by class: kind is "people", "settings" or "variants"."""
MEANS = {
    "distance": "credal_distance",
    "covered": "credal_covered",
    "nearest_member": "credal_nearest_member",
    **{name: f"credal_{name}" for name in ENTROPIES},
    "diameter": "credal_diameter",
    "relative_volume": "credal_relative_volume",
    "people_within_bounds": "credal_people_within_bounds",
}
DIFFERENCES = ("distance", "between_entropy_nats", "imprecision_nats")
"""Those whose change from base is reported as well, paired by question."""
EXPECTED_COVERED = 0.95
"""Share of questions covered where people's law is in every set."""


Counts = Mapping[str, tuple[np.ndarray, np.ndarray]]
"""By prompt id, int64[S, K] answers by member and class, and int64[K] people, zeros where they were not asked."""


def _counts(question: Question, members: Sequence[Mapping[str, int]]) -> tuple[np.ndarray, np.ndarray]:
    pooled = [within_people(dict(counts), question) if question.human else dict(counts) for counts in members]
    people, *rows = aligned(people_counts(question), *pooled)
    return np.array(rows), people


def tabled_counts(members: pd.DataFrame, people: pd.DataFrame) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Counts for ``set_table`` of the questions that all members answered.

    Args:
        members: Columns prompt_id, member, label and count.
        people: Columns prompt_id, label and count, of the questions that people were asked.
    """
    asked, found = dict(iter(people.groupby("prompt_id"))), {}
    for prompt_id, own in members.groupby("prompt_id", sort=False):
        if own["member"].nunique() < members["member"].nunique():
            continue
        sides = [own[own["member"] == member] for member in own["member"].unique()]
        sides.append(asked.get(prompt_id, people.iloc[:0]))
        *rows, last = aligned(*(dict(zip(side["label"], side["count"], strict=True)) for side in sides))
        found[prompt_id] = np.array(rows), last
    return found


def question_table(
    questions: Sequence[Question], counts: Mapping[str, Sequence[Mapping[str, int]]], rng: np.random.Generator | None
) -> pd.DataFrame:
    """``set_table`` of questions, with a column category.

    Args:
        questions: What was asked; those without ``counts`` are left out.
        counts: By prompt id, answers by class of each member; at least one answer each.
        rng: Of the bands and floors.
    """
    asked = {question.prompt_id: question for question in questions if question.prompt_id in counts}
    table = set_table({name: _counts(question, counts[name]) for name, question in asked.items()}, rng)
    return table.assign(category=[asked[name].category for name in table["prompt_id"]])


def set_table(counts: Counts, rng: np.random.Generator | None) -> pd.DataFrame:
    """The set of its members' laws on every question, against people's law where they were asked.

    The band of a distance: people and answers are drawn anew, as many as there are, the people from the mixture that is
    nearest to them, the answers from the members; the distance is taken again.

    Args:
        counts: At least one answer of each member, at least one question.
        rng: Of the bands and floors; None leaves them out, which takes most of the time, and whether people are
            covered.

    Returns:
        prompt_id, num_members, num_classes, distance (NaN without people), distance_null and distance_null_95, covered,
        nearest_member, ENTROPIES, diameter, between_null and diameter_null (means where all members answer by one law,
        their pooled one), relative_volume, people_entropy_nats and people_within_bounds.
    """
    names, tables = list(counts), list(counts.values())
    laws = [members / members.sum(axis=1, keepdims=True) for members, _ in tables]
    asked = [place for place, (_, people) in enumerate(tables) if people.any()]
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
    for place, (name, law) in enumerate(zip(names, laws, strict=True)):
        row = {
            "prompt_id": name,
            "num_members": len(law),
            "num_classes": law.shape[1],
            **_against_people(law, people.get(place), found.get(place), bands.get(place)),
            **entropy_bounds(law),
            **entropy_split(law),
            "diameter": diameter(law),
            **_of_one_law(tables[place][0], rng),
            "relative_volume": _relative_volume(law),
        }
        inside = row["lower_entropy_nats"] <= row["people_entropy_nats"] <= row["upper_entropy_nats"]
        row["people_within_bounds"] = float(inside) if place in people else math.nan
        rows.append(row)
    return pd.DataFrame(rows)


def _of_one_law(members: np.ndarray, rng: np.random.Generator | None) -> dict[str, float]:
    """What members int64[S, K] would be apart if all answered by their pooled law: means over redrawn answers."""
    if rng is None:
        return {"between_null": math.nan, "diameter_null": math.nan}
    pooled = members.sum(axis=0) / members.sum()
    sizes = members.sum(axis=1)
    drawn = np.stack([rng.multinomial(size, pooled, size=BAND_REPLICATES) / size for size in sizes], axis=1)
    between = entropy(drawn.mean(axis=1)) - entropy(drawn).mean(axis=1)
    widest = total_variation(drawn[:, :, None], drawn[:, None]).max(axis=(1, 2))
    return {"between_null": float(np.maximum(between, 0).mean()), "diameter_null": float(widest.mean())}


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
    per_prompt: pd.DataFrame, base: pd.DataFrame | None, *, seed: int, names: Sequence[str], replicates: int
) -> list[dict[str, Any]]:
    """Means over questions with 95% bootstrap intervals over questions, and paired changes from base.

    Args:
        per_prompt: From ``set_table``.
        base: The base checkpoint's on the same questions, in the same order; None leaves out the changes.
        seed: Root seed of the bootstrap; ``names`` complete its streams' names.
        names: Axis, model, condition, split.
        replicates: Resamples per interval.
    """
    nulls = {"distance": "distance_null", "between_entropy_nats": "between_null", "diameter": "diameter_null"}
    floors = {column: float(per_prompt[null].mean()) for column, null in nulls.items()}
    floors["covered"] = EXPECTED_COVERED
    other, changes = (per_prompt, ()) if base is None else (base, DIFFERENCES)
    return paired_rows(per_prompt, other, MEANS, changes, floors, seed=seed, names=names, replicates=replicates)
