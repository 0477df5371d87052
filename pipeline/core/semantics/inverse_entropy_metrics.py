"""From answers to perturbed questions to reported numbers: Inv-Entropy, its relatives, TSU, right against wrong."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pipeline.core.random_streams import random_stream
from pipeline.core.semantics.discrimination import auroc
from pipeline.core.semantics.inverse_entropy import mean_measures, rise_by_chance, rises_with_temperature
from pipeline.core.semantics.question_means import paired_rows, paired_statistic, resamples

REPORTED = {
    "inv_entropy_nats": "inv_entropy_nats",
    "inv_entropy_excess_nats": "inv_entropy_excess_nats",
    "ni_entropy_nats": "inv_ni_entropy_nats",
    "max_probability": "inv_max_probability",
    "wasserstein": "inv_wasserstein",
    "input_dispersion": "inv_input_dispersion",
    "output_dispersion": "inv_output_dispersion",
}
"""Metric by column of ``question_rows``."""
SCORES = {
    "inv_entropy": "inv_entropy_excess_nats",
    "inv_ni_entropy": "ni_entropy_nats",
    "inv_max_probability": "max_probability",
    "inv_wasserstein": "wasserstein",
}
"""Column of each measure of uncertainty."""
CHANGES = ("inv_entropy_excess_nats", "output_dispersion")
ALL = "all"
"""Split of the default decoding setting."""


def question_rows(
    inputs: np.ndarray,
    answers: Mapping[str, np.ndarray],
    similarity: np.ndarray,
    *,
    draws: int,
    seed: int,
    names: Sequence[str],
) -> list[dict[str, Any]]:
    """The measures of one question under each decoding setting.

    Args:
        inputs: Similarities of the question and its perturbations, float64[m, m].
        answers: Which text each answer is, int[m, r], by split.
        similarity: Similarities of the texts, float64[t, t].
        draws: Draws of one answer to each request.
        seed: Root seed; ``names`` complete the stream's name. All settings share their draws.
        names: What names the question.

    Returns:
        Rows of split, perturbations (their number) and the keys of REPORTED.
    """
    return [
        {
            "split": split,
            "perturbations": len(inputs) - 1,
            **mean_measures(inputs, own, similarity, draws=draws, rng=random_stream(seed, "draws", *names)),
        }
        for split, own in answers.items()
    ]


def metric_rows(
    per_prompt: pd.DataFrame,
    base: pd.DataFrame,
    temperatures: Sequence[str],
    *,
    seed: int,
    names: Sequence[str],
    replicates: int,
) -> list[dict[str, Any]]:
    """Rows of metrics.csv with their splits, and 95% bootstrap intervals over questions.

    Means under every setting; under the default one also TSU, whose floor is what a measure that ignores the
    temperature scores, AUROC for wrong answers, and changes from base.

    Args:
        per_prompt: A row for each question and split: prompt_id, split, right (NaN where nothing is), and what
            ``question_rows`` returns; splits have the same questions in the same order.
        base: Those of the base checkpoint, in the same order.
        temperatures: Splits that differ in temperature alone, by ascending temperature.
        seed: Root seed of the bootstrap; ``names`` and the split complete its streams' names.
        names: Axis, model, condition.
        replicates: Resamples per interval.
    """
    rows = []
    for split in per_prompt["split"].unique():
        own, other = (table[table["split"] == split].reset_index(drop=True) for table in (per_prompt, base))
        stream = {"seed": seed, "names": (*names, split), "replicates": replicates}
        metrics, changes, floors = REPORTED, list(CHANGES), {}
        if split == ALL and len(temperatures) > 1:
            own, other = (
                side.assign(**_rises(table, temperatures)) for side, table in ((own, per_prompt), (other, base))
            )
            metrics = REPORTED | {f"{measure}_tsu": f"{measure}_tsu" for measure in SCORES}
            changes.append("inv_entropy_tsu")
            floors = {f"{measure}_tsu": rise_by_chance(len(temperatures)) for measure in SCORES}
        found = paired_rows(own, other, metrics, changes if split == ALL else (), floors, **stream)
        if split == ALL:
            found += _correctness_rows(own, other, **stream)
        rows += [{"split": split, **row} for row in found]
    return rows


def _rises(table: pd.DataFrame, temperatures: Sequence[str]) -> dict[str, np.ndarray]:
    """float64[questions] by column: 1 where the measure rises strictly with the temperature."""
    found = {}
    for measure, column in SCORES.items():
        values = [table.loc[table["split"] == split, column].to_numpy() for split in temperatures]
        found[f"{measure}_tsu"] = rises_with_temperature(np.stack(values, axis=-1)).astype(np.float64)
    return found


def _correctness_rows(
    own: pd.DataFrame, base: pd.DataFrame, *, seed: int, names: Sequence[str], replicates: int
) -> list[dict[str, Any]]:
    judged = np.isfinite(own["right"].to_numpy())
    if not judged.any():
        return []
    own, base = (table[judged].reset_index(drop=True) for table in (own, base))
    weights = resamples(len(own), replicates, random_stream(seed, "bootstrap", *names, "gold"))
    rows = []
    for measure, column in SCORES.items():

        def area(table: pd.DataFrame, weights: np.ndarray | None = None, column=column) -> np.ndarray:
            return auroc(-table[column].to_numpy(), table["right"].to_numpy() > 0.5, weights)

        rows += paired_statistic(f"{measure}_auroc", area, own, base, weights)
    return rows
