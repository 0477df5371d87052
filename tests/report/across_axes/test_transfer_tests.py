"""The tables of tests beyond numbers and over models, from files."""

import numpy as np
import pandas as pd
import pytest

from pipeline.axes.mcq.multiple_choice import outcome, prompt_row, total_variation
from pipeline.core.prompts.multiple_choice import LETTERS, McqFailure
from pipeline.report.across_axes.comparisons import transfer_comparisons, transfer_tests_table
from pipeline.report.evaluations import ReportContext, read_evaluations
from tests.report.conftest import metric_row, params_of, write_fabricated

MODELS = [f"m{number}" for number in range(7)]
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
    assert set(verdicts(tests, "unique_fraction", "open").values()) == {"better"}
    expected = dict(zip(pairs, ("better", "cannot tell", "better"), strict=True))
    assert verdicts(tests, "utility", "all") == verdicts(tests, "utility", "curated") == expected
    assert set(tests.loc[tests["metric"] == "utility_stand_in", "model"]) == {"m6"}
    assert verdicts(tests, "mcq_parse_rate", "mcq") == dict(zip(pairs, ("worse", "worse", "better"), strict=True))
    # The same letters, half as many; and none that parse.
    balance = verdicts(tests, "mcq_total_variation", "mcq")
    assert balance == dict(zip(pairs, ("cannot tell", "undefined", "undefined"), strict=True))


def test_splits_are_adjusted_together_and_all_by_itself(tests):
    chosen = tests[(tests["metric"] == "utility") & (tests["model"] == "m0") & (tests["condition"] == "soft")]
    for _, members in chosen.groupby("against"):
        rows = members.set_index("split")
        assert rows.loc["all", "p_adjusted"] == rows.loc["all", "p"]
        smaller = rows.loc[["curated", "wildchat"], "p"].idxmin()
        assert rows.loc[smaller, "p_adjusted"] == pytest.approx(2 * rows.loc[smaller, "p"])


def test_the_table_names_its_evaluations(evaluations, tests):
    context = context_for(evaluations, MODELS)
    table = transfer_tests_table(context, tests)
    rows = {tuple(row[:4]): dict(zip(table.header, row, strict=True)) for row in table.rows}
    unique = rows["Unique output rate", "open", "M0", "soft − base"]
    assert (unique["n"], unique["Verdict"]) == ("102", "better")
    assert float(unique["Difference"]) == pytest.approx(0.2, abs=0.01)
    parsed = rows["Parse rate", "mcq", "M0", "hard − base"]
    assert (parsed["n"], parsed["Difference"]) == ("200", "-1.000")
    assert table.frame.loc[0, "provenance"].count("provenance.json") == 2
    assert transfer_tests_table(context, tests.iloc[:0]) is None
