"""Inv-Entropy from similarities to reported numbers: a model that follows the temperature, and not."""

import numpy as np
import pandas as pd
import pytest

from pipeline.core.semantics.inverse_entropy_metrics import metric_rows, question_rows

QUESTIONS, STATES, TEXTS = 60, 6, 8
SPLITS = ("cold", "all", "hot")
"""By temperature."""


def world(spread: dict[str, tuple[float, float]], seed: int) -> pd.DataFrame:
    """A table of questions whose answers are each another text with the probabilities of ``spread``, by difficulty.

    Half of the questions are hard: their answers spread as the second probability says, and they are wrong.
    """
    rng, rows = np.random.default_rng(seed), []
    inputs = 0.7 + 0.3 * np.eye(STATES)
    similarity = 0.5 + 0.5 * np.eye(TEXTS)
    for number in range(QUESTIONS):
        hard = number % 2
        answers = {
            split: np.where(rng.random((STATES, 5)) < spread[split][hard], rng.integers(TEXTS, size=(STATES, 5)), 0)
            for split in ("all", "cold", "hot")
        }
        own = question_rows(inputs, answers, similarity, draws=30, seed=0, names=(str(number),))
        rows += [{"prompt_id": str(number), "right": 1.0 - hard, **row} for row in own]
    return pd.DataFrame(rows)


def found(own: pd.DataFrame, base: pd.DataFrame, temperatures=SPLITS) -> pd.DataFrame:
    rows = metric_rows(own, base, temperatures, seed=0, names=("axis", "m", "c"), replicates=200)
    return pd.DataFrame(rows).set_index(["split", "metric"])


def test_a_model_that_spreads_with_the_temperature_and_where_it_is_wrong():
    rising = world({"cold": (0.05, 0.1), "all": (0.2, 0.6), "hot": (0.8, 0.95)}, 0)
    level = world(dict.fromkeys(SPLITS, (0.4, 0.4)), 1)
    table = found(rising, level)
    tsu = table.loc[("all", "inv_entropy_tsu")]
    assert tsu["value"] > 0.8 and tsu["floor"] == pytest.approx(1 / 6) and tsu["ci_low"] > tsu["floor"]
    assert table.loc[("all", "inv_entropy_auroc"), "value"] > 0.95
    assert table.loc[("all", "inv_max_probability_auroc"), "value"] > 0.9
    change = table.loc[("all", "inv_entropy_auroc_difference")]
    assert change["ci_low"] > 0.2 and table.loc[("all", "inv_entropy_tsu_difference"), "ci_low"] > 0.3
    excess = table["value"].xs("inv_entropy_excess_nats", level="metric")
    assert 0 < excess["cold"] < excess["all"] < excess["hot"]
    assert set(table.loc["hot"].index) < set(table.loc["all"].index)


def test_a_model_that_ignores_the_temperature_is_at_the_null_and_knows_nothing():
    level, other = (world(dict.fromkeys(SPLITS, (0.5, 0.5)), seed) for seed in (2, 3))
    table = found(level, other)
    tsu, area = table.loc[("all", "inv_entropy_tsu")], table.loc[("all", "inv_entropy_auroc")]
    assert tsu["ci_low"] <= tsu["floor"] <= tsu["ci_high"] and area["ci_low"] < 0.5 < area["ci_high"]
    assert table.loc[("all", "inv_entropy_excess_nats_difference"), "ci_low"] < 0
    assert table.loc[("all", "inv_entropy_excess_nats_difference"), "ci_high"] > 0


def test_one_temperature_has_no_sensitivity_and_unknown_answers_no_discrimination():
    level = world(dict.fromkeys(SPLITS, (0.5, 0.5)), 4).assign(right=np.nan)
    names = set(found(level, level, ("all",)).index.get_level_values("metric"))
    assert "inv_entropy_nats" in names and not {name for name in names if "tsu" in name or "auroc" in name}
