"""Rows of a split: distances with floors and intervals, by family and over all."""

import math

import numpy as np
import pandas as pd
import pytest

from pipeline.axes.structured.aggregate import DISTANCES, summaries
from pipeline.axes.structured.ks import ks_passes
from pipeline.core.prompts.structured import make_prompt
from pipeline.core.statistics.intervals import wilson_interval
from pipeline.core.statistics.summarise import summarise

FAMILIES = ["a", "a", "b", "c"]


def table(**columns):
    return pd.DataFrame({"family": FAMILIES, "num_samples": 10, "num_valid": [10, 5, 0, 8], **columns})


def rows_of(per_prompt, floors=None, deviations=None):
    """Rows of a condition by metric and family; a column that is not given is 0."""
    given = dict.fromkeys(DISTANCES, 0.0)
    given |= {name: per_prompt[name] for name in per_prompt}
    for kind, arrays in (("floors", floors), ("deviations", deviations)):
        given |= {f"{name} {kind}": list(values) for name, values in (arrays or {}).items()}
    rows = pd.DataFrame(given).assign(condition="base", prompt_id=list("pqrstuv")[: len(per_prompt)])
    found = [
        row
        for part, numbers, by_family in summaries(rows)
        for row in summarise(part, numbers, seed=0, names=("x",), replicates=400, by_family=by_family)
    ]
    return {(row["metric"], row["family"]): row for row in found}


def test_distances_are_reported_by_family_and_over_all():
    values = np.array([0.1, 0.3, 0.4, 0.9])
    columns = dict.fromkeys(DISTANCES, values)
    rows = rows_of(table(**columns), {name: np.stack([values, values + 1], axis=1) for name in columns})
    for metric in columns:
        # Family means .2, .4, .9 and the same plus 1: medians .4 and 1.4.
        assert rows[metric, ""]["value"] == pytest.approx(0.4) and rows[metric, ""]["floor"] == pytest.approx(0.9)
        assert rows[metric, "a"]["value"] == pytest.approx(0.2)
    assert rows["wasserstein_1_normalised", ""]["n"] == 23 and rows["pit_wasserstein_1", "a"]["n"] == 15
    assert rows["pit_wasserstein_1_all_answers", ""]["n"] == 40


def test_logit_kl_is_an_average_over_families():
    rows = rows_of(table(logit_kl_nats=np.array([0.1, 0.3, 0.4, 3.0])))
    # Family means are .2, .4 and 3.
    assert rows["logit_kl_nats", ""]["value"] == pytest.approx(1.2)
    assert rows["logit_kl_nats", "a"]["value"] == pytest.approx(0.2)
    assert rows["logit_kl_nats", ""]["ci_low"] < 1.2 < rows["logit_kl_nats", ""]["ci_high"]


def test_the_median_over_a_familys_prompts_is_not_its_mean():
    families = ["a", "a", "a", "b", "c", "c", "d"]
    values = np.array([0.1, 0.2, 9.0, 0.4, math.nan, 0.3, math.nan])
    valid = [10, 9, 8, 7, 0, 5, 0]
    per_prompt = pd.DataFrame(
        {"family": families, "num_samples": 10, "num_valid": valid, "wasserstein_1_normalised": values}
    )
    metric, floors = "wasserstein_1_normalised_prompt_median", np.array([[1.0, 3.0]] * 7) * np.arange(1, 8)[:, None]
    floors[6] = math.nan
    deviations = {"wasserstein_1_normalised": np.tile([-0.01, 0.01], (7, 1))}
    rows = rows_of(per_prompt, {"wasserstein_1_normalised": floors}, deviations)
    found = {family: row for (name, family), row in rows.items() if name == metric}
    assert list(found) == ["a", "b", "c", "d"]
    assert [found[family]["value"] for family in "abc"] == [0.2, 0.4, 0.3]
    assert rows["wasserstein_1_normalised", "a"]["value"] == pytest.approx(3.1)
    # Of each perfect sampler the median of its prompts, then the mean over samplers: 2 and 6 of the first family.
    assert [found[family]["floor"] for family in "abc"] == [4, 8, 12]
    assert [(row["n"], row["undefined"]) for row in found.values()] == [(27, 0), (7, 0), (5, 1), (0, 1)]
    # Medians of three resampled prompts; of one prompt, what its samples leave open; of none, nothing.
    assert (found["a"]["ci_low"], found["a"]["ci_high"]) == pytest.approx((0.09, 9.01))
    assert (found["b"]["ci_low"], found["b"]["ci_high"]) == pytest.approx((0.39, 0.41))
    assert all(math.isnan(found["d"][name]) for name in ("value", "ci_low", "ci_high", "floor"))


def test_a_family_of_one_prompt_has_an_interval_from_its_samples():
    values = np.array([0.1, 0.3, 0.4, 0.05])
    deviations = {"pit_wasserstein_1": np.tile([-0.1, 0.0, 0.1], (4, 1))}
    alone = rows_of(table(pit_wasserstein_1=values))
    varied = rows_of(table(pit_wasserstein_1=values), deviations=deviations)
    assert math.isnan(alone["pit_wasserstein_1", "c"]["ci_low"])
    # 0.05 less 0.1 is no distance.
    own = varied["pit_wasserstein_1", "c"]
    assert (own["ci_low"], own["ci_high"]) == pytest.approx((0.0, 0.15))
    assert varied["pit_wasserstein_1", ""]["ci_high"] >= alone["pit_wasserstein_1", ""]["ci_high"]


def test_a_familys_valid_rate_knows_that_answers_come_by_prompt():
    rows = rows_of(pd.DataFrame({"family": ["a", "a", "b"], "num_samples": 100, "num_valid": [100, 50, 75]}))
    by_prompt, one_prompt = rows["valid_rate", "a"], rows["valid_rate", "b"]
    assert by_prompt["value"] == one_prompt["value"] == 0.75
    # 100% and 50% at two prompts: next to nothing is known of the family; the prompt's own rate is.
    assert by_prompt["ci_high"] - by_prompt["ci_low"] > 0.7
    assert (one_prompt["ci_low"], one_prompt["ci_high"]) == wilson_interval(75, 100)
    assert (rows["valid_rate", ""]["value"], rows["valid_rate", ""]["n"]) == (0.75, 300)


def test_figures_that_some_prompts_lack_are_not_aggregated():
    rates, distances = [0.5, 0.5, math.nan, 0.5], [1.0, 2.0, 3.0, 4.0]
    rows = rows_of(table(exact_support_rate=rates, exact_wasserstein_1_normalised=distances))
    assert ("exact_support_rate", "") not in rows and ("exact_support_rate", "a") not in rows
    exact = rows["exact_wasserstein_1_normalised", ""]
    assert exact["value"] == 3 and exact["n"] == 4


def test_requests_pass_by_what_is_readable():
    gaussian = make_prompt("gaussian", {"mu": 0.0, "sigma": 1.0}, "ood")
    answers = [f"{value:.3f}" for value in np.random.default_rng(0).normal(size=100)]
    assert list(ks_passes(gaussian, answers, 0).values()) == [1, 1]
    assert list(ks_passes(gaussian, [*answers, *["none"] * 25], 0).values()) == [1, 0]
    # Half of the numbers are outside the support.
    assert list(ks_passes(make_prompt("exponential", {"lambda": 1.0}, "ood"), answers, 0).values()) == [0, 0]
    rows = rows_of(table(ks_at_100=[1.0, 0.0, 1.0, 1.0], ks_at_100_all=0.0))
    assert rows["ks_at_100", ""]["value"] == 0.75 and rows["ks_at_100", "a"]["value"] == 0.5
    # That none of the requests passes does not show that none ever would.
    none = rows["ks_at_100_all", ""]
    assert (none["value"], none["n"], none["floor"]) == (0, 4, 0.9999) and none["ci_low"] == 0 < none["ci_high"] < 1
