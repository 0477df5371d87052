"""Retention from answers written by hand: gp-IRT and means over tasks."""

import numpy as np
import pandas as pd
import pytest

from pipeline.axes.retention.accuracy import split_statistics
from pipeline.core.retention.irt import SCENARIOS as NAMES
from pipeline.core.retention.irt import estimate_performance
from pipeline.core.retention.tasks import ALL_COLUMNS, COLUMNS
from pipeline.core.statistics.intervals import wilson_interval
from pipeline.core.statistics.summarise import summarise
from tests.core.retention.test_irt import scenario

SIZE = 60
TASKS = [column for column in COLUMNS if column != "tinyGSM8k (strict)"]


SCENARIOS = {name: scenario(300, SIZE, dimensions=1, seed=place) for place, name in enumerate(NAMES.values())}


def own_and_base() -> dict[str, pd.DataFrame]:
    """MMLU as it was; HellaSwag loses 30 of 60; Winogrande gains 20 of 60; GSM8K (flexible) loses 4."""
    base = {column: (np.arange(SIZE) % 2).astype(float) for column in COLUMNS}
    own = {column: values.copy() for column, values in base.items()}
    base["tinyTruthfulQA"] = np.random.default_rng(0).random(SIZE)
    own["tinyTruthfulQA"] = np.clip(base["tinyTruthfulQA"] + np.random.default_rng(1).normal(0, 0.05, SIZE), 0, 1)
    own["tinyHellaswag"][:] = 0
    own["tinyWinogrande"][::3] = 1
    own["tinyGSM8k (flexible)"][1:9:2] = 0
    own["tinyGSM8k (strict)"][1:41:2] = 0
    return {"soft": by_item(own), "base": by_item(base)}


def by_item(columns: dict[str, np.ndarray]) -> pd.DataFrame:
    parts = [
        pd.DataFrame({"task": ALL_COLUMNS[column][0], "item": range(len(values)), "column": column, "value": values})
        for column, values in columns.items()
    ]
    return pd.concat(parts).pivot(index=["task", "item"], columns="column", values="value")[[*columns]]


@pytest.fixture(scope="module")
def rows() -> dict:
    tables = [table.reset_index().assign(condition=name) for name, table in own_and_base().items()]
    items = pd.concat(tables)
    items["name"] = items["task"] + items["item"].astype(str)
    found = {}
    for split, (members, statistics) in split_statistics(list(COLUMNS), SCENARIOS).items():
        own = items[items[members].notna().any(axis=1)]
        options = {"unit": "name", "strata": "task", "seed": 0, "names": ("m",), "replicates": 300}
        for row in summarise(own, statistics, split=split, **options):
            found[row["condition"], split, row["metric"]] = row
    return found


def ends(row, name="ci"):
    return row[f"{name}_low"], row[f"{name}_high"]


def test_rows_by_column(rows):
    tables = own_and_base()
    for column, (task, _) in COLUMNS.items():
        own, base = (tables[name][column].dropna().to_numpy() for name in ("soft", "base"))
        (expected,) = estimate_performance(SCENARIOS[NAMES[task]], own, np.ones((1, SIZE)))
        score, accuracy = rows["soft", column, "gp_irt"], rows["soft", column, "accuracy"]
        assert score["value"] == pytest.approx(expected, abs=1e-9) and accuracy["value"] == pytest.approx(own.mean())
        assert score["n"] == accuracy["n"] == SIZE
        assert accuracy["change"] == pytest.approx(own.mean() - base.mean())
        if column != "tinyTruthfulQA":
            assert ends(accuracy) == wilson_interval(own.sum(), SIZE)
    assert rows["soft", "tinyHellaswag", "accuracy"]["change_high"] < -0.3
    # A resample of the items by weight is one of the items themselves.
    values, picks = tables["soft"]["tinyWinogrande"].dropna().to_numpy(), np.r_[np.arange(SIZE - 1), 0]
    counts = np.bincount(picks, minlength=SIZE)[None].astype(float)
    assert (
        estimate_performance(SCENARIOS["winogrande"], values, counts)
        != rows["soft", "tinyWinogrande", "gp_irt"]["value"]
    )


def test_means_over_tasks_and_the_papers(rows):
    own = {column: rows["soft", column, "gp_irt"]["value"] for column in COLUMNS}
    once, twice = (np.mean([own[column] for column in columns]) for columns in (TASKS, COLUMNS))
    mean = rows["soft", "all", "gp_irt"]
    assert mean["value"] == pytest.approx(once) and mean["n"] == 5 * SIZE
    assert rows["soft", "all", "gp_irt_paper_mean"]["value"] == pytest.approx(twice)
    assert mean["change"] == pytest.approx(np.mean([rows["soft", column, "gp_irt"]["change"] for column in TASKS]))
    # Independent tasks: the mean's error is the root of the summed squares over 5, up to the bootstrap's own noise.
    widths = [np.ptp(ends(rows["soft", column, "gp_irt"])) for column in TASKS]
    assert np.ptp(ends(mean)) == pytest.approx(np.sqrt(np.square(widths).sum()) / 5, rel=0.2)
