"""The table of all methods and the method to choose, from metrics made by hand."""

import math

import pandas as pd
import pytest

from pipeline.report.across_axes.frontier import chosen_methods, frontier_table
from tests.report.conftest import context_of, metric_row, params_of, texts


@pytest.fixture(scope="module")
def params():
    found = params_of(["alpha"], ("soft", "hard", "anchored"))
    assert found.tests.wasserstein_margin == 0.01
    return found


def w1(condition, ood, unseen):
    return [
        metric_row("structured", "alpha", condition, split, "wasserstein_1_normalised", value, width=0.005, floor=0.02)
        for split, value in (("ood", ood), ("unseen", unseen))
    ]


def kept(condition, kl, bits):
    """Divergence from base, and change of bits per byte."""
    return [
        metric_row("anchors", "alpha", condition, "all", "anchor_kl_nats", kl),
        metric_row("paloma", "alpha", condition, "all", "bits_per_byte", bits),
    ]


ROWS = [
    *(*w1("base", 0.20, 0.16), *w1("soft", 0.08, 0.06), *w1("hard", 0.12, 0.10), *w1("anchored", 0.085, 0.065)),
    *(*kept("soft", 0.4, 0.3), *kept("hard", 0.05, 0.1), *kept("anchored", 0.1, 0.2)),
]


def choice(params, rows=ROWS, tests=None):
    return chosen_methods(context_of(params, rows), tests)["alpha"]


def paired(*rows):
    table = pd.DataFrame(rows, columns=["split", "condition", "against", "verdict"])
    return table.assign(model="alpha", metric="wasserstein_1_normalised")


def test_the_cheapest_of_the_well_calibrated_is_chosen(params):
    # Hard's 0.12 - 0.005 is beyond soft's 0.08 + 0.005 and the margin, so its low divergence does not count.
    found = choice(params)
    assert found.method == "anchored" and found.worse == {"hard": ("ood", "soft", False)}
    tests = paired(("ood", "soft", "hard", "cannot tell"), ("unseen", "anchored", "soft", "worse"))
    # A test that cannot tell decides, however far apart the intervals are; on the other split there is none.
    found = choice(params, tests=tests)
    assert found.worse == {"anchored": ("unseen", "soft", True), "hard": ("unseen", "soft", False)}
    assert found.method == "soft"
    # Tests against base say nothing of methods against each other.
    tests = paired(("ood", "soft", "base", "worse"), ("unseen", "soft", "base", "worse"))
    assert choice(params, tests=tests).method == "anchored"


def test_without_divergence_bits_per_byte_decide_and_without_both_nothing(params):
    wide = [{**row, "ci_low": row["value"] - 1, "ci_high": row["value"] + 1} for row in ROWS[:8]]
    text = [row for row in ROWS[8:] if row["axis"] == "paloma"]
    # All three are candidates; hard costs the fewest bits, soft the least divergence of those that have one.
    assert choice(params, [*wide, *text]).method == "hard"
    part = [row for row in ROWS if (row["axis"], row["condition"]) != ("anchors", "hard")]
    assert choice(params, [*wide, *part[8:]]).method == "hard"
    assert choice(params, part).method == "anchored"
    nothing = choice(params, wide)
    assert (nothing.method, nothing.candidates) == ("", ("soft", "hard", "anchored"))
    assert chosen_methods(context_of(params, w1("base", 0.2, 0.2)), None) == {}
    assert choice(params, [*ROWS, *w1("soft", math.nan, 0.1)]).worse["soft"] == ("ood", "", False)


def test_table_says_who_is_to_be_chosen(params):
    context = context_of(params, ROWS)
    table = frontier_table(context, chosen_methods(context, None))
    assert table.header[2:6] == ["W1, unseen", "× perfect, unseen", "W1, OOD", "× perfect, OOD"]
    rows = {
        condition: dict(zip(table.header[2:], cells, strict=True)) for (_, condition), cells in texts(table).items()
    }
    assert {condition: cells["Choice"] for condition, cells in rows.items()} == {
        **{"base": "", "soft": "", "hard": "", "anchored": "to choose"}
    }
    assert rows["soft"]["× perfect, unseen"] == "3.0 (0.02)" and rows["soft"]["W1, OOD"][:6] == "0.0800"
    assert rows["hard"]["Bits per byte"][:6] == "0.1000" and rows["base"]["Bits per byte"] == "—"
    assert frontier_table(context_of(params, kept("soft", 0.1, 0.2)), {}) is None
