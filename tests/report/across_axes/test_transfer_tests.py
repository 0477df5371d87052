"""The tables of tests beyond numbers and over models, from files."""

import numpy as np
import pandas as pd
import pytest

from pipeline.axes.mcq.multiple_choice import outcome, prompt_row, total_variation
from pipeline.config.params import load_params
from pipeline.core.prompts.multiple_choice import LETTERS, McqFailure
from pipeline.report.across_axes.model_tests import model_comparisons, model_tests_table
from pipeline.report.across_axes.transfer import generative_summary
from pipeline.report.across_axes.transfer_tests import transfer_comparisons, transfer_tests_table
from pipeline.report.evaluations import read_evaluations
from pipeline.report.page.page import table_sources
from pipeline.report.tables import table_text
from pipeline.report.tables.table import bold_by_tests, verdicts_of
from tests.conftest import ROOT
from tests.report.conftest import CONDITIONS, metric_row, write_fabricated

MODELS = {f"m{number}": f"Model {number}" for number in range(7)}
PARAMS = load_params(ROOT / "params.yaml")
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
    table = pd.DataFrame([prompt_row("q", pd.DataFrame({"strict": answers, "tolerant": answers, "truncated": False}))])
    counts = table[[f"count_{letter.lower()}" for letter in LETTERS]].iloc[0].to_numpy()
    rows = [
        metric_row("mcq", model, condition, "mcq", f"mcq_{name}{suffix}", value, n=n, undefined=int(not n))
        for suffix in ("", "_tolerant")
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


@pytest.fixture(scope="module")
def tests(evaluations):
    return transfer_comparisons(evaluations, evaluations.metrics, MODELS, CONDITIONS, 0, PARAMS.tests, 200)


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
    table = transfer_tests_table(tests, MODELS, 0.05)
    rows = {tuple(row[:4]): row[4:] for row in table.rows}
    unique = rows["Unique output rate", "open", "Model 0", "soft − base"]
    assert unique[0] == "102" and float(unique[1]) == pytest.approx(0.2, abs=0.01) and unique[-1] == "better"
    assert rows["Parse rate", "mcq", "Model 0", "hard − base"][:2] == ["200", "-1.000"]
    first = table.frame.iloc[0]
    assert first["provenance"].count("provenance.json") == 2
    assert len(table_sources(table, evaluations.provenance, "summary")) == 3 * 3 * len(MODELS)
    assert transfer_tests_table(tests.iloc[:0], MODELS, 0.05) is None


def test_one_test_over_models(evaluations):
    found = model_comparisons(PARAMS, evaluations, evaluations.metrics, MODELS)
    rows = {(row.metric, row.split, row.condition, row.against): row for row in found.itertuples()}
    unique = rows["unique_fraction", "open", "soft", "base"]
    assert (unique.verdict, unique.models, unique.better) == ("better", 7, 7)
    assert unique.p == pytest.approx(2 / 2**7) and unique.ci_low < 0.2 < unique.ci_high
    assert rows["mcq_parse_rate", "mcq", "soft", "base"].verdict == "worse"
    # Six models have the benchmark's own utility; one has a stand-in's, from which nothing follows.
    assert rows["utility", "all", "soft", "base"].models == 6
    assert not any(metric == "utility_stand_in" for metric, *_ in rows)
    text = table_text.to_markdown(model_tests_table(found, 0.05))
    assert "| Unique output rate | open | soft − base | 7 | +0.20" in text and "| 7 of 7 |" in text
    one = model_comparisons(PARAMS, evaluations, evaluations.metrics, {"m0": "Model 0"})
    assert one.empty and model_tests_table(one, 0.05) is None


def test_table_1_is_bold_only_where_a_test_says_so(evaluations, tests):
    table = bold_by_tests(generative_summary(evaluations.metrics, {"m0": "Model 0"}, CONDITIONS), verdicts_of([tests]))
    row = table_text.to_markdown(table).splitlines()[4]
    cells = dict(zip(table_text.to_markdown(table).splitlines()[2].split(" | "), row.split(" | "), strict=True))
    assert cells["Unique output rate soft"].startswith("**")
    # Base and soft are equally balanced, and nothing of hard parses.
    assert not any(text.startswith("**") for title, text in cells.items() if title.startswith("MCQ TV"))
