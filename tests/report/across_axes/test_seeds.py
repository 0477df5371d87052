"""Tables over training seeds from fabricated evaluations."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pipeline.config.params import load_params
from pipeline.errors import ArtifactError, ConfigError
from pipeline.report.across_axes.seeds import (
    difference_records,
    interval_records,
    paired_t_interval,
    seed_tables,
    seed_values,
    value_records,
)
from pipeline.report.evaluations import read_evaluations
from pipeline.report.tables.table_text import to_latex, to_markdown
from pipeline.report.write import write_report
from tests.report.conftest import CONDITIONS, metric_row, with_methods, write_fabricated

W1 = "wasserstein_1_normalised"
NAMES = {"beta": "Beta 2B", "alpha": "Alpha_1B"}


def structured(root, model, condition, by_prompt, *, w1=None, families=("f", "f", "g")):
    """A structured evaluation with W1 by prompt; its aggregate is a given number, or the families' median."""
    means = pd.Series(by_prompt).groupby(list(families)).mean()
    value = float(means.median()) if w1 is None else w1
    per_prompt = pd.DataFrame(
        {
            "prompt_id": [f"p{place}" for place in range(len(by_prompt))],
            "split": "ood",
            "family": families,
            W1: by_prompt,
        }
    )
    rows = [
        metric_row("structured", model, condition, "ood", W1, value),
        metric_row("structured", model, condition, "ood", "stream_correlation", 0.5),
    ]
    write_fabricated(root, rows, per_prompt=per_prompt)


@pytest.fixture
def seeds(tmp_path):
    """Two seeds of alpha under base and soft, three of beta under base; seed 2 has no soft of alpha."""
    values = {0: ([0.4, 0.2, 0.5], [0.1, 0.1, 0.2]), 1: ([0.4, 0.4, 0.5], [0.3, 0.1, 0.4]), 2: ([0.3, 0.3, 0.3], None)}
    for seed, (base, soft) in values.items():
        root = tmp_path / str(seed)
        structured(root, "alpha", "base", base)
        structured(root, "beta", "base", base)
        if soft:
            structured(root, "alpha", "soft", soft)
        write_fabricated(
            root, [metric_row("mcq", "alpha", "base", "mcq", "mcq_total_variation", math.nan if seed == 1 else 0.25)]
        )
    return {seed: read_evaluations(tmp_path / str(seed)) for seed in values}


def test_values_are_of_headline_metrics_in_the_order_of_the_models(seeds):
    values = seed_values(seeds, NAMES, CONDITIONS)
    assert list(values["model"].drop_duplicates()) == ["beta", "alpha"]
    assert set(values["metric"]) == {W1, "mcq_total_variation"}
    records = value_records(values, NAMES).set_index(["model", "metric", "condition"])
    base = records.loc["alpha", W1, "base"]
    # Families' means .3 and .5, .4 and .5, .3 and .3.
    assert base["values"] == "0:0.4 1:0.45 2:0.3" and base["seeds"] == 3
    assert (base["mean"], base["low"], base["high"]) == (pytest.approx(1.15 / 3), 0.3, 0.45)
    assert base["deviation"] == pytest.approx(np.std([0.4, 0.45, 0.3], ddof=1))
    assert records.loc["alpha", W1, "soft"]["seeds"] == 2 and base["provenance"].count("provenance.json") == 3
    undefined = records.loc["alpha", "mcq_total_variation", "base"]
    assert (undefined["status"], undefined["undefined"], undefined["seeds"]) == ("undefined", 1, 3)
    assert math.isnan(undefined["mean"])


def test_t_interval_of_differences():
    found = [0.1, 0.25, 0.1, 0.4]
    low, high = paired_t_interval(found)
    oracle = stats.ttest_rel(found, [0.0] * 4).confidence_interval(0.95)
    assert (low, high) == (pytest.approx(oracle.low), pytest.approx(oracle.high))
    assert paired_t_interval([0.2, 0.2]) == (pytest.approx(0.2), pytest.approx(0.2))
    for values in ([0.1], [0.1, math.nan, 0.3]):
        assert all(math.isnan(end) for end in paired_t_interval(values))


def test_differences_are_of_the_same_seed(seeds):
    (row,) = difference_records(seed_values(seeds, NAMES, CONDITIONS), NAMES, CONDITIONS).to_dict("records")
    # Soft .15 and .3, base .4 and .45; seed 2 has no soft.
    assert (row["condition"], row["against"], row["seeds"]) == ("soft", "base", 2)
    assert row["difference"] == pytest.approx(-0.2) and row["deviation"] == pytest.approx(math.sqrt(0.005))
    margin = 12.706204736432095 * math.sqrt(0.005) / math.sqrt(2)
    assert (row["ci_low"], row["ci_high"]) == (pytest.approx(-0.2 - margin), pytest.approx(-0.2 + margin))
    assert row["provenance"].count("soft") == row["provenance"].count("base") == 2


def test_intervals_are_of_the_means_over_seeds(seeds):
    records = interval_records(seed_values(seeds, NAMES, CONDITIONS), seeds, NAMES, 0, 400).set_index(
        ["model", "condition"]
    )
    soft = records.loc["alpha", "soft"]
    # Means over seeds .2, .1, .3: families .15 and .3.
    assert soft["value"] == pytest.approx(0.225) and (soft["seeds"], soft["prompts"]) == (2, 3)
    assert soft["ci_low"] < 0.225 < soft["ci_high"] and soft["ci_low"] >= 0.1 and soft["ci_high"] <= 0.4
    assert list(records.index) == [("beta", "base"), ("alpha", "base"), ("alpha", "soft")]
    again = interval_records(seed_values(seeds, NAMES, CONDITIONS), seeds, NAMES, 0, 400).set_index(
        ["model", "condition"]
    )
    pd.testing.assert_frame_equal(records, again)


def test_seeds_with_other_prompts_are_an_error(seeds, tmp_path):
    structured(tmp_path / "few", "alpha", "soft", [0.1], families=("f",))
    found = {0: seeds[0], 9: read_evaluations(tmp_path / "few")}
    with pytest.raises(ArtifactError, match="few.*the seeds answered different prompts of the split ood"):
        interval_records(seed_values(found, NAMES, CONDITIONS), found, NAMES, 0, 10)


def test_a_prompt_that_is_undefined_in_one_seed_is_no_part_of_its_familys_mean(tmp_path):
    for seed, first in ((0, 0.4), (1, math.nan)):
        structured(tmp_path / str(seed), "alpha", "soft", [first, 0.2, 0.5], w1=0.3)
    seeds = {seed: read_evaluations(tmp_path / str(seed)) for seed in (0, 1)}
    (row,) = interval_records(seed_values(seeds, NAMES, CONDITIONS), seeds, NAMES, 0, 100).to_dict("records")
    assert row["value"] == pytest.approx(0.35) and (row["undefined"], row["prompts"]) == (1, 3)
    assert row["ci_low"] >= 0.2 and row["ci_high"] <= 0.5


def test_a_metric_that_no_prompt_has_is_shown_as_undefined(tmp_path, two_models):
    for seed in (0, 1):
        structured(tmp_path / str(seed), "alpha", "soft", [math.nan] * 3, w1=math.nan)
    seeds = {seed: read_evaluations(tmp_path / str(seed)) for seed in (0, 1)}
    tables = {table.name: table for table in seed_tables(seeds, load_params(two_models))}
    assert tables["seed_intervals"].rows[0][-2:] == ["— (3 undefined)", "—"]
    assert tables["seed_values"].rows[0][-1] == "— (undefined in 2 of 2 seeds)"


def test_tables(seeds, two_models):
    config = load_params(two_models)
    tables = {table.name: table for table in seed_tables(seeds, config)}
    assert list(tables) == ["seed_values", "seed_intervals", "seed_differences"]
    values = dict(zip(tables["seed_values"].header, tables["seed_values"].rows[0], strict=True))
    assert values["Model"] == "Alpha_1B" and values["Metric"] == "W1 (normalised) (lower is better)"
    assert values["base"] == "0.3833 ± 0.0764 (0.3000 to 0.4500)" and values["Seeds"] == "3"
    assert values["soft"] == "0.2250 ± 0.1061 (0.1500 to 0.3000) [seeds: 2]"
    by_model = [(row[0], row[3:]) for row in tables["seed_values"].rows]
    assert ("Alpha_1B", ["3", "— (undefined in 1 of 3 seeds)", "not run"]) in by_model
    assert ("Beta 2B", ["3", "0.3833 ± 0.0764 (0.3000 to 0.4500)", "not run"]) in by_model
    (difference,) = tables["seed_differences"].rows
    assert difference[3:7] == ["soft − base", "2", "-0.2000 ± 0.0707", "-0.2500 to -0.1500"]
    assert "Training seeds 0, 1, 2." in tables["seed_values"].note
    for table in tables.values():
        assert "differs by sampling alone" in table.note and "provenance" in table.frame
        assert table.caption in to_markdown(table) and to_latex(table)


def test_differences_and_notes_are_of_the_configured_methods(seeds, two_models, tmp_path):
    path, names = tmp_path / "params.yaml", ("anchored", "soft", "merged")
    found = {}
    for seed, read in seeds.items():
        anchored = read.metrics[read.metrics["condition"] == "base"].assign(condition="anchored")
        found[seed] = dataclasses.replace(read, metrics=pd.concat([read.metrics, anchored]))
    values = seed_values(found, NAMES, ("base", *names))
    pairs = difference_records(values, NAMES, ("base", *names))[["condition", "against"]].drop_duplicates()
    assert pairs.to_numpy().tolist() == [["anchored", "base"], ["soft", "base"], ["anchored", "soft"]]
    header = seed_tables(found, with_methods(two_models, path, "soft"))[0].header
    assert list(header[4:]) == ["base", "soft"]


def test_one_seed_has_none(seeds, two_models, tmp_path):
    config = load_params(two_models)
    assert seed_tables({0: seeds[0]}, config) == []
    nothing = read_evaluations(tmp_path / "none")
    assert seed_tables({0: nothing, 1: nothing}, config) == []


def test_other_seeds_are_other_than_the_tables_own(two_models, prompts, tmp_path):
    with pytest.raises(ConfigError, match="seed_evals: 0 is the seed of evals; give evaluations of other seeds"):
        write_report(
            load_params(two_models),
            [],
            [prompts[1]],
            tmp_path / "reports",
            seed_evals=[(1, tmp_path), (0, tmp_path)],
        )
    assert not (tmp_path / "reports").exists()
