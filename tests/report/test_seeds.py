"""Tables over training seeds from metrics made by hand."""

import math

import numpy as np
import pytest

from pipeline.report.seeds import paired_change, seed_values, value_records
from tests.report.conftest import CONDITIONS, context_of, metric_row, params_of

W1 = "wasserstein_1_normalised"
PARAMS = params_of(["beta", "alpha"])
NAMES = {"beta": "BETA", "alpha": "ALPHA"}


def evaluations(seed, *values):
    """One seed's metrics of (model, condition, W1 on held-out families)."""
    rows = [metric_row("structured", model, condition, "ood", W1, value) for model, condition, value in values]
    rows.append(metric_row("mcq", "alpha", "base", "mcq", "mcq_total_variation", math.nan if seed == 1 else 0.25))
    rows.append(metric_row("structured", "alpha", "base", "ood", "exact_support_rate", 0.5))
    return context_of(PARAMS, rows).evaluations


SEEDS = {
    0: evaluations(0, ("alpha", "base", 0.4), ("alpha", "soft", 0.15), ("beta", "base", 0.4)),
    1: evaluations(1, ("alpha", "base", 0.45), ("alpha", "soft", 0.3), ("beta", "base", 0.45)),
    2: evaluations(2, ("alpha", "base", 0.3), ("beta", "base", 0.3)),
}


def test_values_are_of_headline_metrics_in_the_order_of_the_models():
    values = seed_values(SEEDS, NAMES, CONDITIONS)
    assert list(values["model"].drop_duplicates()) == ["beta", "alpha"]
    assert set(values["metric"]) == {W1, "mcq_total_variation"}
    records = value_records(values).set_index(["model", "metric", "condition"])
    base = records.loc["alpha", W1, "base"]
    assert base["values"] == "0:0.4 1:0.45 2:0.3" and base["seeds"] == 3
    assert (base["mean"], base["low"], base["high"]) == (pytest.approx(1.15 / 3), 0.3, 0.45)
    assert base["deviation"] == pytest.approx(np.std([0.4, 0.45, 0.3], ddof=1))
    assert records.loc["alpha", W1, "soft"]["seeds"] == 2
    undefined = records.loc["alpha", "mcq_total_variation", "base"]
    assert (undefined["status"], undefined["undefined"], undefined["seeds"]) == ("undefined", 1, 3)
    assert math.isnan(undefined["mean"])


def test_changes_are_from_base_under_the_same_seed():
    row = value_records(seed_values(SEEDS, NAMES, CONDITIONS)).set_index(["condition", "model"]).loc["soft", "alpha"]
    # Seed 2 has no soft; the differences are -0.25 and -0.15.
    margin = 12.706204736432095 * math.sqrt(0.005) / math.sqrt(2)
    assert row["change"] == pytest.approx(-0.2)
    assert (row["change_low"], row["change_high"]) == (pytest.approx(-0.2 - margin), pytest.approx(-0.2 + margin))
    assert row["provenance"].count("soft") == 2 and row["provenance"].count("base") == 3


@pytest.mark.parametrize("values", [{0: 0.1}, {0: 0.1, 1: math.nan, 2: 0.3}])
def test_one_seed_or_an_undefined_one_has_no_interval(values):
    change = paired_change(values, {0: 0.2, 1: 0.2, 2: 0.2})
    assert math.isnan(change["change_low"]) and math.isnan(change["change_high"])
