"""The table of laws of one's own, from answers of samplers that are known to be good and bad."""

import numpy as np
import pandas as pd
import pytest

from pipeline.artifacts.scores import LAW_EXACT_COLUMNS
from pipeline.axes.laws.law_metrics import evaluate_law, summaries
from pipeline.axes.laws.report import law_records
from pipeline.core.laws.finite_law import categorical_law, numeric_law
from pipeline.core.prompts.structured import Prompt
from pipeline.core.statistics.summarise import summarise
from pipeline.report.evaluations import read_evaluations
from tests.report.conftest import write_fabricated

CITY = categorical_law({"New York": 0.6, "New": 0.3, "York": 0.1})
DICE = numeric_law(np.arange(1, 7), np.ones(6), 0)
SPLIT = "held_out_template"


@pytest.fixture
def evaluations(tmp_path):
    """Base always answers the commonest city and a six; soft samples from the laws."""
    rng = np.random.default_rng(0)
    prompts = [
        Prompt(f"{law}-{n}", SPLIT, law, "", {}, f"{law} {n}", CITY if law == "city" else DICE)
        for law in ("city", "dice")
        for n in range(7)
    ]
    for condition, weights, least in (("base", [1, 0, 0], 6), ("soft", CITY.class_probabilities, 1)):
        found = []
        for prompt in prompts:
            cities = rng.choice(CITY.strings, p=weights, size=200).tolist()
            dice = [str(value) for value in rng.integers(least, 7, size=200)]
            answers = [*(cities if prompt.law is CITY else dice), "?"]
            found.append(evaluate_law(prompt, answers, seed=0, names=("m", condition), floor_replicates=100))
        table = pd.DataFrame(found).assign(condition=condition, **dict.fromkeys(LAW_EXACT_COLUMNS, 0.25))
        rows = [
            {"axis": "laws", "model": "m", **row}
            for part, numbers, by_law in summaries(table)
            for row in summarise(part, numbers, split=SPLIT, seed=0, names=("m",), replicates=100, by_family=by_law)
        ]
        write_fabricated(tmp_path, rows)
    return read_evaluations(tmp_path)


def test_each_law_has_its_own_distance_and_floor(evaluations):
    frame = law_records(evaluations.metrics, ["m"], ("base", "soft", "hard")).set_index(["law", "condition"])
    assert list(frame.index) == [("city", "base"), ("city", "soft"), ("dice", "base"), ("dice", "soft")]
    assert list(frame["metric"]) == ["law_total_variation"] * 2 + ["law_wasserstein_1_normalised"] * 2
    assert frame.loc[("city", "base"), "value"] == pytest.approx(0.4)
    for law in ("city", "dice"):
        assert frame.loc[(law, "soft"), "value"] < 2 * frame.loc[(law, "soft"), "floor"]
        assert frame.loc[(law, "base"), "ci_low"] > frame.loc[(law, "soft"), "ci_high"]
    assert list(frame["valid_rate"]) == pytest.approx([200 / 201] * 4) and (frame["exact"] == 0.25).all()
    assert law_records(evaluations.metrics.iloc[:0], ["m"], ("base",)).empty
