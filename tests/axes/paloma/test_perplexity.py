"""Perplexity, bits per byte, their intervals and the paired comparison."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pipeline.axes.paloma.perplexity import bits_per_byte, comparison_table, perplexity, statistics
from pipeline.core.statistics.paired_tests import TEST_COLUMNS
from pipeline.core.statistics.summarise import summarise


def table(rng=None, sizes=(("a", 40), ("b", 25)), shift=0.0, noise=0.0) -> pd.DataFrame:
    """Documents with about 3 nats per token, 4 bytes per token, and ``shift`` bits per byte against base."""
    rng = rng or np.random.default_rng(0)
    parts = []
    for name, size in sizes:
        tokens = rng.integers(5, 200, size=size)
        base = tokens * rng.normal(3, 0.3, size=size)
        change = 4 * tokens * math.log(2) * (shift + noise * rng.normal(size=size))
        parts.append(
            pd.DataFrame(
                {
                    "slice": name,
                    "nll_nats": base + change,
                    "change_nats": change,
                    "num_tokens": tokens,
                    "num_bytes": 4 * tokens,
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def by_name(documents: pd.DataFrame, seed: int = 0, replicates: int = 4000) -> dict[tuple[str, str], dict]:
    """Metrics by split and name, of one condition and without a comparison but that of ``change_nats``."""
    wanted = statistics("model", against_base=False) | statistics("model", against_base=True)
    documents = documents.assign(condition="soft", name=range(len(documents)))
    draws = {"unit": "name", "strata": "slice", "seed": seed, "names": (), "replicates": replicates}
    found = {}
    for split, rows in [*documents.groupby("slice", sort=False), ("all", documents)]:
        for row in summarise(rows, wanted, split=split, **draws):
            found[split, row["metric"]] = row
    return found


def comparisons(documents: pd.DataFrame) -> pd.DataFrame:
    """The tests of ``comparison_table``."""
    differences = [row for (_, metric), row in by_name(documents).items() if metric == "bits_per_byte_difference"]
    options = {"variant": "model", "seed": 0, "names": ("paloma", "m", "soft"), "margin": 0.02, "significance": 0.05}
    return comparison_table(documents, differences, **options)


def test_definitions_by_hand():
    assert perplexity(3 * math.log(10), 3) == pytest.approx(10)
    assert bits_per_byte(8 * math.log(2), 4) == pytest.approx(2)
    np.testing.assert_allclose(perplexity(np.array([0.0, 2.0]), np.array([5, 2])), [1, math.e])
    assert math.isnan(perplexity(0.0, 0)) and math.isnan(bits_per_byte(0.0, 0))
    assert perplexity(1e6, 1) == math.inf


def test_totals_are_those_of_the_sums():
    documents = pd.DataFrame(
        {
            "slice": ["b", "a", "b"],
            "nll_nats": [6.0, 10.0, 2.0],
            "change_nats": [2.0, 1.0, 0.0],
            "num_tokens": [2, 5, 2],
            "num_bytes": [10, 20, 10],
        }
    )
    rows = by_name(documents)
    assert list(dict.fromkeys(split for split, _ in rows)) == ["b", "a", "all"]
    assert rows["b", "perplexity"]["value"] == pytest.approx(math.exp(2))
    assert rows["a", "bits_per_byte"]["value"] == pytest.approx(0.5 / math.log(2))
    assert rows["all", "perplexity"]["value"] == pytest.approx(math.exp(2))
    assert rows["all", "bits_per_byte"]["value"] == pytest.approx(18 / 40 / math.log(2))
    assert rows["all", "bits_per_byte_difference"]["value"] == pytest.approx(3 / 40 / math.log(2))
    assert [rows[split, "perplexity"]["n"] for split in ("b", "a", "all")] == [2, 1, 3]
    # One document says nothing about the spread.
    assert math.isnan(rows["a", "perplexity"]["ci_low"]) and math.isnan(rows["all", "perplexity"]["ci_low"])
    assert math.isfinite(rows["b", "perplexity"]["ci_low"])


def test_all_slices_together_resample_documents_within_each():
    # Documents of a slice are alike: drawn within slices they leave nothing to chance, drawn from all of them they do.
    alike = {"num_tokens": 10, "num_bytes": 40, "change_nats": 0.0}
    documents = pd.DataFrame({"slice": list("aaabbb"), "nll_nats": [10.0] * 3 + [50.0] * 3, **alike})
    row = by_name(documents)["all", "bits_per_byte"]
    assert row["ci_low"] == row["ci_high"] == pytest.approx(row["value"])


def test_interval_agrees_with_the_delta_method():
    documents = table(np.random.default_rng(3), sizes=(("a", 400),))
    row = by_name(documents)["a", "bits_per_byte"]
    bits, size = documents["nll_nats"] / math.log(2), documents["num_bytes"]
    residuals = (bits - row["value"] * size) / size.mean()
    error = residuals.std(ddof=1) / math.sqrt(len(documents))
    assert (row["ci_high"] - row["ci_low"]) / (2 * 1.96 * error) == pytest.approx(1, abs=0.08)


@pytest.mark.parametrize(
    ("shift", "noise", "expected"),
    [
        (0.0, 0.001, "kept"),
        (0.005, 0.002, "kept"),
        (0.2, 0.05, "lost"),
        (-0.2, 0.05, "gained"),
        (0.0, 0.5, "cannot tell"),
    ],
)
def test_verdicts(shift, noise, expected):
    tests = comparisons(table(shift=shift, noise=noise))
    assert tests["split"].tolist() == ["a", "b", "all"] and tests["verdict"].tolist() == [expected] * 3
    assert tuple(tests) == TEST_COLUMNS and set(tests["metric"]) == {"bits_per_byte"}


def test_p_values():
    documents = table(np.random.default_rng(4), shift=0.01, noise=0.04)
    first, second, total = comparisons(documents).to_dict("records")
    members = documents[documents["slice"] == "a"]
    bits, size = members["change_nats"] / math.log(2), members["num_bytes"]
    ratio = bits.sum() / size.sum()
    values = ratio + (bits - ratio * size) / size.mean()
    lower = stats.ttest_1samp(values, -0.02, alternative="greater").pvalue
    upper = stats.ttest_1samp(values, 0.02, alternative="less").pvalue
    assert first["p_equivalence"] == pytest.approx(max(lower, upper))
    # The permutation test and the t-test ask nearly the same of 40 documents.
    assert first["p_difference"] == pytest.approx(stats.ttest_1samp(bits, 0).pvalue, abs=0.03)
    smaller, larger = sorted((first, second), key=lambda row: row["p_difference"])
    assert smaller["p_difference_adjusted"] == pytest.approx(min(1, 2 * smaller["p_difference"]))
    assert larger["p_difference_adjusted"] >= max(larger["p_difference"], smaller["p_difference_adjusted"])
    assert total["p_difference_adjusted"] == total["p_difference"]
    assert total["p_equivalence_adjusted"] == total["p_equivalence"]
    assert first["ci_low"] < first["difference"] < first["ci_high"]
