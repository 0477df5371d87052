"""Perplexity, bits per byte, and their intervals."""

import math

import numpy as np
import pandas as pd
import pytest

from pipeline.axes.paloma.evaluate import STATISTICS, bits_per_byte, perplexity
from pipeline.core.statistics.summarise import summarise


def by_name(documents: pd.DataFrame, replicates: int = 4000) -> dict[tuple[str, str], dict]:
    """Metrics by split and name."""
    documents = documents.assign(condition="soft", name=range(len(documents)))
    draws = {"unit": "name", "strata": "slice", "seed": 0, "names": (), "replicates": replicates}
    return {
        (split, row["metric"]): row
        for split, rows in [*documents.groupby("slice", sort=False), ("all", documents)]
        for row in summarise(rows, STATISTICS, split=split, **draws)
    }


def test_definitions_by_hand():
    assert perplexity(3 * math.log(10), 3) == pytest.approx(10)
    assert bits_per_byte(8 * math.log(2), 4) == pytest.approx(2)
    np.testing.assert_allclose(perplexity(np.array([0.0, 2.0]), np.array([5, 2])), [1, math.e])
    assert math.isnan(perplexity(0.0, 0)) and math.isnan(bits_per_byte(0.0, 0))
    assert perplexity(1e6, 1) == math.inf


def test_totals_are_those_of_the_sums():
    sizes = {"nll_nats": [6.0, 10.0, 2.0], "num_tokens": [2, 5, 2], "num_bytes": [10, 20, 10]}
    documents = pd.DataFrame({"slice": ["b", "a", "b"], **sizes})
    rows = by_name(documents)
    assert rows["b", "perplexity"]["value"] == pytest.approx(math.exp(2))
    assert rows["a", "bits_per_byte"]["value"] == pytest.approx(0.5 / math.log(2))
    assert rows["all", "perplexity"]["value"] == pytest.approx(math.exp(2))
    assert rows["all", "bits_per_byte"]["value"] == pytest.approx(18 / 40 / math.log(2))
    assert [rows[split, "perplexity"]["n"] for split in ("b", "a", "all")] == [2, 1, 3]
    # One document says nothing about the spread.
    assert math.isnan(rows["a", "perplexity"]["ci_low"]) and math.isnan(rows["all", "perplexity"]["ci_low"])
    assert math.isfinite(rows["b", "perplexity"]["ci_low"])


def test_all_slices_together_resample_documents_within_each():
    # Documents of a slice are alike: drawn within slices they leave nothing to chance, drawn from all of them they do.
    alike = {"num_tokens": 10, "num_bytes": 40}
    documents = pd.DataFrame({"slice": list("aaabbb"), "nll_nats": [10.0] * 3 + [50.0] * 3, **alike})
    row = by_name(documents)["all", "bits_per_byte"]
    assert row["ci_low"] == row["ci_high"] == pytest.approx(row["value"])


def test_interval_agrees_with_the_delta_method():
    rng = np.random.default_rng(3)
    tokens = rng.integers(5, 200, size=400)
    nll = tokens * rng.normal(3, 0.3, size=400)
    documents = pd.DataFrame({"slice": "a", "nll_nats": nll, "num_tokens": tokens, "num_bytes": 4 * tokens})
    row = by_name(documents)["a", "bits_per_byte"]
    bits, size = documents["nll_nats"] / math.log(2), documents["num_bytes"]
    residuals = (bits - row["value"] * size) / size.mean()
    error = residuals.std(ddof=1) / math.sqrt(len(documents))
    assert (row["ci_high"] - row["ci_low"]) / (2 * 1.96 * error) == pytest.approx(1, abs=0.08)
