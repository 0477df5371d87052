"""Tests of what carries over to language, against SciPy, by their own error rates, and as a table of files."""

import math

import numpy as np
import pandas as pd
import pytest

from pipeline.axes.mcq.multiple_choice import outcome, prompt_row, total_variation, total_variation_floor
from pipeline.core.prompts.multiple_choice import LETTERS, McqFailure
from pipeline.report.evaluations import ReportContext, read_evaluations
from pipeline.report.transfer import (
    compare_prompts,
    compare_total_variation,
    transfer_comparisons,
)
from tests.report.conftest import metric_row, params_of, write_fabricated

NAMES = (0, "open", "open", "metric", "m", "soft", "base")


def test_prompts_are_paired_and_the_difference_is_that_of_the_means():
    rng = np.random.default_rng(0)
    base = rng.exponential(size=102)
    own = base + 0.1 + 0.05 * rng.normal(size=102)
    found = compare_prompts(own, base, NAMES)
    assert found["difference"] == pytest.approx(own.mean() - base.mean()) and found["n"] == 102
    assert (found["value"], found["value_against"]) == (own.mean(), base.mean())
    # Prompts differ by far more than the conditions, which pairing takes out.
    error = (own - base).std() / math.sqrt(102)
    assert found["ci_high"] - found["ci_low"] == pytest.approx(2 * 1.96 * error, rel=0.12) and found["p"] < 0.001
    assert compare_prompts(own, base, NAMES) == compare_prompts(own, base, NAMES)


def test_prompts_that_are_undefined_under_one_condition_are_left_out():
    own, base = np.array([1.0, 2.0, math.nan, 4.0]), np.array([0.0, math.nan, 1.0, 1.0])
    found = compare_prompts(own, base, NAMES)
    assert (found["n"], found["value"], found["value_against"], found["difference"]) == (2, 2.5, 0.5, 2.0)
    nothing = compare_prompts(np.full(4, math.nan), base, NAMES)
    assert nothing["n"] == 0 and math.isnan(nothing["p"]) and math.isnan(nothing["difference"])


def test_total_variation_is_compared_at_the_samples_sizes():
    own, base = np.array([40, 5, 3, 2]), np.array([260, 250, 240, 250])
    found = compare_total_variation(own, base, NAMES)
    assert found["difference"] == pytest.approx(total_variation(own) - total_variation(base)) and found["n"] == 50
    assert found["floor_difference"] == total_variation_floor(50) - total_variation_floor(1000) > 0.07
    assert found["p"] < 0.001 and found["ci_low"] > found["floor_difference"]
    none = compare_total_variation(np.zeros(4, dtype=np.int64), base, NAMES)
    assert math.isnan(none["p"]) and math.isnan(none["difference"]) and none["n"] == 0


@pytest.mark.parametrize("chances", [(0.25, 0.25, 0.25, 0.25), (0.7, 0.1, 0.1, 0.1)])
def test_fewer_questions_that_parse_are_no_imbalance(chances):
    """40 against 400 of the same law: the smaller sample lies farther from uniform, and no test may say more."""
    rng, rejected, lower = np.random.default_rng(2), 0, 0
    for run in range(120):
        own, base = rng.multinomial(40, chances), rng.multinomial(400, chances)
        found = compare_total_variation(own, base, (run, *NAMES[1:]))
        rejected += found["p"] <= 0.05
        lower += found["difference"] < 0
    assert rejected / 120 < 0.1
    if chances[0] == 0.25:
        assert lower / 120 < 0.1


def test_equal_distances_on_different_letters_are_rejected_at_the_level():
    """Of answers that are A in .925 or B in .925, both .675 from uniform; without its standard error, .09."""
    rng, rejected = np.random.default_rng(3), 0
    for run in range(400):
        own, base = (
            rng.multinomial(1000, chances) for chances in ((0.925, *[0.025] * 3), (0.025, 0.925, 0.025, 0.025))
        )
        rejected += compare_total_variation(own, base, (run, *NAMES[1:]))["p"] <= 0.05
    # 5% of 400 runs, and two standard errors.
    assert rejected / 400 <= 0.072


MODELS = ["m0", "m6"]
RATES = {"base": 0.3, "soft": 0.5, "hard": 0.4}


def write_open(root, model, condition, rng):
    values = np.clip(RATES[condition] + 0.1 * np.sin(np.arange(102)) + 0.02 * rng.normal(size=102), 0, 1)
    table = pd.DataFrame({"prompt_id": [f"p{n}" for n in range(102)], "unique_fraction": values})
    rows = [metric_row("open", model, condition, "open", "unique_fraction", values.mean(), n=102)]
    write_fabricated(root, rows, per_prompt=table)


def write_novelty(root, model, condition, rng, metric="utility"):
    splits = np.repeat(["curated", "wildchat"], [10, 20])
    table = pd.DataFrame({"prompt_id": [f"{s}.{n}" for n, s in enumerate(splits)], "split": splits})
    table = table.assign(distinct=3.0, utility=3 + (condition == "soft") + 0.1 * rng.normal(size=30))
    rows = [
        metric_row("novelty", model, condition, split, metric, 3.0, n=30) for split in ("curated", "wildchat", "all")
    ]
    write_fabricated(root, rows, per_prompt=table)


def write_mcq(root, model, condition):
    parsed = {"base": 200, "soft": 100, "hard": 0}[condition]
    answers = [LETTERS[0] if n % 2 else LETTERS[n % 4] for n in range(parsed)]
    answers += [outcome(McqFailure(next(iter(McqFailure)).value))] * (200 - parsed)
    table = pd.DataFrame([prompt_row("q", answers)])
    counts = table[[f"count_{letter.lower()}" for letter in LETTERS]].iloc[0].to_numpy()
    rows = [
        metric_row("mcq", model, condition, "mcq", f"mcq_{name}", value, n=n, undefined=int(not n))
        for name, value, n in (("parse_rate", parsed / 200, 200), ("total_variation", total_variation(counts), parsed))
    ]
    write_fabricated(root, rows, per_prompt=table)


@pytest.fixture(scope="module")
def evaluations(tmp_path_factory):
    root, rng = tmp_path_factory.mktemp("transfer"), np.random.default_rng(0)
    for model in MODELS:
        for condition in RATES:
            write_open(root, model, condition, rng)
            write_mcq(root, model, condition)
            # One model's NoveltyBench was rated by a stand-in.
            write_novelty(root, model, condition, rng, "utility_stand_in" if model == "m6" else "utility")
    return read_evaluations(root)


def context_for(evaluations, models):
    return ReportContext(params_of(models), evaluations, [])


@pytest.fixture(scope="module")
def tests(evaluations):
    return transfer_comparisons(params_of(MODELS), evaluations)


def verdicts(tests, metric, split):
    chosen = tests[(tests["metric"] == metric) & (tests["split"] == split) & (tests["model"] == "m0")]
    pairs = zip(chosen["condition"], chosen["against"], strict=True)
    return dict(zip(pairs, chosen["verdict"], strict=True))


def test_every_axis_is_tested_against_base_and_soft_against_hard(tests):
    pairs = [("soft", "base"), ("hard", "base"), ("soft", "hard")]
    assert list(verdicts(tests, "unique_fraction", "open")) == pairs
    # Neither way is better.
    assert set(verdicts(tests, "unique_fraction", "open").values()) == {"more"}
    expected = dict(zip(pairs, ("better", "cannot tell", "better"), strict=True))
    assert verdicts(tests, "utility", "all") == verdicts(tests, "utility", "curated") == expected
    assert set(tests.loc[tests["metric"] == "utility_stand_in", "model"]) == {"m6"}
    # The same letters, half as many; and none that parse.
    balance = verdicts(tests, "mcq_total_variation", "mcq")
    assert balance == dict(zip(pairs, ("cannot tell", "undefined", "undefined"), strict=True))
