"""Costs at equal calibration from fabricated evaluations, whose resamples are known."""

import numpy as np
import pandas as pd
import pytest

from pipeline.report.across_axes.frontier_costs import equal_calibration, equal_calibration_table, reference_family
from pipeline.report.evaluations import read_evaluations
from tests.report.conftest import metric_row, with_methods, write_fabricated

ONE = {"alpha": "Alpha"}
PLACES = {"base": (10.0, 0.0), "soft_half": (6.0, 0.1), "soft": (4.0, 0.4)}
"""W1 in units of a perfect sampler's, and divergence from base in nats per token."""
FLOOR = 0.02


def evaluate(root, condition, place, noise):
    """W1, divergence, bits per byte, retention and questions; the first two vary over families and instructions."""
    ratio, divergence = place
    names = ("alpha", condition)
    families, replies = 1 + noise * np.linspace(-1, 1, 7), 1 + noise * np.linspace(-1, 1, 9) ** 3
    rows, prompts = [], []
    for split in ("ood", "unseen"):
        value = float(np.median(families)) * ratio * FLOOR
        rows.append(metric_row("structured", *names, split, "wasserstein_1_normalised", value, floor=FLOOR))
        prompts.append(
            pd.DataFrame(
                {
                    "prompt_id": [f"{split}{place}" for place in range(7)],
                    "split": split,
                    "family": [f"family{place}" for place in range(7)],
                    "wasserstein_1_normalised": families * ratio * FLOOR,
                }
            )
        )
    write_fabricated(root, rows, per_prompt=pd.concat(prompts))
    sums = {
        "prompt_id": range(9),
        "direction": "forward",
        "num_tokens": 10,
        "divergence_nats": 10 * divergence * replies,
    }
    table = pd.DataFrame(sums)
    table = pd.concat([table, table.assign(direction="reverse", divergence_nats=7.0)])
    value = divergence * float(replies.mean())
    write_fabricated(root, [metric_row("anchors", *names, "all", "anchor_kl_nats", value)], per_prompt=table)
    rows = [metric_row("paloma", *names, "all", "bits_per_byte", 2 + divergence)]
    rows += [metric_row("paloma", *names, "all", "bits_per_byte_difference", divergence)] * (condition != "base")
    write_fabricated(root, rows)
    items = pd.DataFrame({"split": "tinyMMLU", "item": range(20), "base_value": 1.0, "value": 1.0})
    items.loc[: int(20 * divergence) - 1, "value"] = 0.0
    rows = [metric_row("retention", *names, "all", "accuracy", float(items["value"].mean()))]
    change = float((items["value"] - items["base_value"]).mean())
    rows += [metric_row("retention", *names, "all", "accuracy_difference", change)] * (condition != "base")
    write_fabricated(root, rows, results={"prompt_format": "chat"}, per_prompt=items)
    parsed = round(100 * (1 - divergence))
    letters = {f"count{suffix}_{letter}": 0 for suffix in ("", "_tolerant") for letter in "abcd"}
    counts = {"num_samples": 100, "num_parsed": parsed, "num_parsed_tolerant": parsed, **letters}
    write_fabricated(
        root, [metric_row("mcq", *names, "mcq", "mcq_parse_rate", parsed / 100)], per_prompt=pd.DataFrame([counts])
    )


def costs(root, two_models, places, noise=0.0):
    for condition, place in places.items():
        evaluate(root / "evals", condition, place, noise)
    params = with_methods(two_models, root / "params.yaml", *(name for name in places if name != "base"))
    evaluations = read_evaluations(root / "evals")
    return equal_calibration(params, evaluations, evaluations.metrics, ONE)


def test_a_method_is_compared_with_mixtures_as_well_calibrated(tmp_path, two_models):
    found = costs(tmp_path, two_models, {**PLACES, "anchored": (5.0, 0.05), "hard": (3.0, 0.5)}).set_index(
        ["condition", "metric"]
    )
    row = found.loc[("anchored", "anchor_kl_nats")]
    # Half of the requests to the adapter, half to its half.
    assert row["reference"] == "base, soft_half, soft" and row["calibration"] == pytest.approx(5.0)
    assert (row["reference_value"], row["difference"]) == pytest.approx((0.25, -0.2))
    # Nothing varies here.
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((-0.2, -0.2)) and row["verdict"] == "costs less"
    assert found.loc[("anchored", "bits_per_byte_difference"), "difference"] == pytest.approx(-0.2)
    # What is higher where it is better keeps its sign: more is kept.
    for metric in ("accuracy_difference", "mcq_parse_rate"):
        row = found.loc[("anchored", metric)]
        assert row["difference"] == pytest.approx(0.2) and row["verdict"] != "costs more"
        assert row["ci_low"] < 0.2 < row["ci_high"]
    # Better calibrated than all of the reference: charged with soft's cost.
    row = found.loc[("hard", "anchor_kl_nats")]
    assert not row["reached"] and row["difference"] == pytest.approx(0.1) and row["verdict"] == "costs more"
    assert set(found.index.get_level_values("condition")) == {"anchored", "hard"}
    assert (found["provenance"].str.count("provenance.json") == 8).all()


def test_what_all_conditions_share_cancels(tmp_path, two_models):
    """Prompts that are twice as hard are so for all: a method on the line between two others stays on it."""
    found = costs(tmp_path, two_models, {**PLACES, "anchored": (5.0, 0.25), "hard": (5.0, 0.5)}, noise=0.9)
    row = found.set_index(["condition", "metric"]).loc[("anchored", "anchor_kl_nats")]
    assert (row["difference"], row["ci_low"], row["ci_high"]) == pytest.approx((0, 0, 0), abs=1e-12)
    row = found.set_index(["condition", "metric"]).loc[("hard", "anchor_kl_nats")]
    assert row["ci_high"] - row["ci_low"] > 0.05 and row["ci_low"] < 0.25 < row["ci_high"]


def test_with_the_papers_two_methods_the_reference_is_base_and_soft(tmp_path, two_models):
    found = costs(tmp_path, two_models, {"base": (10.0, 0.0), "soft": (4.0, 0.4), "hard": (7.0, 0.3)})
    row = found.set_index("metric").loc["anchor_kl_nats"]
    assert row["reference"] == "base, soft" and row["difference"] == pytest.approx(0.1)
    table = equal_calibration_table(found, ONE)
    assert list(table.rows[0]) == [
        "Divergence from base",
        "Alpha",
        "hard",
        "7.0",
        "0.3000",
        "0.2000",
        "+0.1000",
        "[+0.1000, +0.1000]",
        "costs more",
    ]
    assert "mixtures of base, soft," in table.note


def test_nothing_to_compare_is_no_table(tmp_path, two_models):
    assert equal_calibration_table(costs(tmp_path, two_models, PLACES), ONE) is None
    params = with_methods(two_models, tmp_path / "other.yaml", "anchored", "hard")
    assert reference_family(params) == ["base", "anchored"]
