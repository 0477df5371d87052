"""Tables of sets of laws: over settings and wordings, and over conditions and seeds from answers by class."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

from pipeline.config.evaluation import PartitionConfig
from pipeline.config.params import load_params
from pipeline.core.semantics import credal_metrics
from pipeline.core.semantics.credal_metrics import MEMBER_COLUMNS
from pipeline.report.evaluations import read_evaluations
from pipeline.report.tables.credal import condition_sets, credal_tables, seed_sets
from tests.report.conftest import CONDITIONS, metric_frame, metric_row, write_fabricated

MODELS = {"alpha": "Alpha"}


@pytest.fixture(autouse=True)
def few_replicates(monkeypatch):
    monkeypatch.setattr(credal_metrics, "BAND_REPLICATES", 15)


@pytest.fixture
def params(two_models):
    return load_params(two_models)


def answered(root, condition, shares, size=100, people=(50, 50)):
    """An evaluation of two questions; people were asked the first one, of which ``shares`` say how many say "a"."""
    rows = [("p", "people", "people", "a", people[0]), ("p", "people", "people", "b", people[1])]
    rows.append(("p", "people", "people", "(other)", 0))
    for name, share in zip("pq", shares, strict=True):
        first = round(share * size)
        rows += [(name, "settings", "default", "a", first), (name, "settings", "default", "b", size - first)]
        # Other members are of other sets.
        rows += [(name, "settings", "warm", "b", size), (name, "variants", "variant1", "b", size)]
    table = pd.DataFrame(rows, columns=list(MEMBER_COLUMNS))
    row = metric_row("credal", "alpha", condition, "all", "credal_distance", 0.1)
    write_fabricated(root, [row], members=table[table["count"] > 0])


def values(table, metric, **labels):
    found = table.frame[table.frame["metric"] == metric]
    for name, label in labels.items():
        found = found[found[name] == label]
    return found.iloc[0]


def test_tables_of_settings_and_wordings():
    rows = [
        metric_row("credal", "alpha", name, split, metric, 0.2, floor=0.1, n=40)
        for name in CONDITIONS
        for split in ("all", "variants")
        for metric in ("credal_distance", "credal_between_entropy_nats", "credal_nearest_member")
    ]
    rows.append(metric_row("credal", "alpha", "soft", "all", "credal_between_entropy_nats_difference", 0.1, n=40))
    rows.append(metric_row("credal", "alpha", "base", "all", "published_volume", 3.0, floor=2.0, n=40))
    settings, changes, wordings, published = credal_tables(metric_frame(rows), MODELS, CONDITIONS)
    assert [measure.title for measure in published.measures] == ["Volume", "Volume of people's"]
    assert tuple(published.conditions) == ("base",)
    titles = ["Distance", "Distance, inside", "Between (nats)", "Between, one law"]
    assert [measure.title for measure in wordings.measures] == titles
    assert [measure.title for measure in settings.measures] == [*titles, "Nearest member"]
    assert {measure.split for measure in wordings.measures} == {"variants"}
    assert tuple(changes.conditions) == ("soft",)
    assert credal_tables(metric_frame([]), MODELS, CONDITIONS) == []


def test_the_set_over_conditions(tmp_path, params):
    for condition, share in zip(CONDITIONS, (0.6, 0.9, 0.7), strict=True):
        answered(tmp_path, condition, (share, 0.5))
    table = condition_sets(read_evaluations(tmp_path), params)
    assert list(table.header[:3]) == ["Model", "Members", "Questions"]
    assert [row[:3] for row in table.rows] == [["Alpha_1B", "base, soft, hard", "2"]]
    # People are half and half, the nearest law is base's; nobody was asked the other question.
    distance = values(table, "credal_distance")
    assert distance["value"] == pytest.approx(0.1) and (distance["n"], distance["undefined"]) == (1, 1)
    assert math.isfinite(distance["floor"])
    entropies = np.array([0.32508, math.log(2)])
    assert values(table, "credal_lower_entropy_nats")["value"] == pytest.approx(entropies.mean(), abs=1e-5)
    assert values(table, "credal_diameter")["value"] == pytest.approx(0.15)
    paths = values(table, "credal_diameter")["provenance"]
    assert all(f"credal/alpha/{condition}/provenance.json" in paths for condition in CONDITIONS)


def test_one_condition_is_no_set(tmp_path, params):
    answered(tmp_path, "base", (0.6, 0.5))
    assert condition_sets(read_evaluations(tmp_path), params) is None
    assert condition_sets(read_evaluations(tmp_path / "none"), params) is None


def test_labels_of_a_judge_are_compared_where_they_are_peoples(tmp_path, params):
    for condition, share in zip(CONDITIONS, (0.6, 0.9, 0.7), strict=True):
        answered(tmp_path, condition, (share, 0.5))
    judge = {"checkpoint": "owner/nli", "revision": None, "dtype": "float32", "strict": False}
    judge |= {"max_tokens": 64, "tokens_per_pass": 4096}
    partition = PartitionConfig(rule="entailment", judge=judge)
    judged = dataclasses.replace(params, evaluate=dataclasses.replace(params.evaluate, partition=partition))
    table = condition_sets(read_evaluations(tmp_path), judged)
    assert values(table, "credal_imprecision_nats")["n"] == 1


def test_the_set_over_seeds(tmp_path, params):
    shares = {0: {"base": 0.5, "soft": 0.6}, 1: {"base": 0.5, "soft": 0.9}, 2: {"base": 0.5}}
    seeds = {}
    for seed, by_condition in shares.items():
        for condition, share in by_condition.items():
            answered(tmp_path / str(seed), condition, (share, share))
        seeds[seed] = read_evaluations(tmp_path / str(seed))
    table = seed_sets(seeds, params, ["train_seed"])
    assert [row[:4] for row in table.rows] == [["Alpha_1B", "base", "0, 1, 2", "2"], ["Alpha_1B", "soft", "0, 1", "2"]]
    assert values(table, "credal_between_entropy_nats", condition="base")["value"] == 0
    between = values(table, "credal_between_entropy_nats", condition="soft")
    assert between["value"] == pytest.approx(0.06329, abs=1e-5)
    # Two samples of 100 from one law are not so far apart.
    assert 0 < between["floor"] < 0.01
    assert str(tmp_path / "1") in between["provenance"] and "training seeds" in table.caption
    assert seed_sets({0: seeds[0]}, params, ["train_seed"]) is None
