"""The smallest effects that a plan states, in worlds where they are the truth."""

import math

import numpy as np
import pandas as pd
import pytest

from pipeline.axes.mcq.multiple_choice import LETTER_COUNTS
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.sign_flips import sign_flip_effect
from pipeline.estimates.power import pair_variances, smallest_shift
from pipeline.report.claims.declared import PIT, Contrast
from pipeline.report.evaluations import read_evaluations
from tests.report.conftest import metric_row, write_fabricated

BETWEEN, WITHIN = 0.03, 0.05


@pytest.mark.parametrize(("families", "prompts"), [(6, 4), (23, 1), (23, 8), (102, 1)])
def test_the_stated_effect_is_found_in_four_of_five_experiments(families, prompts):
    shift = smallest_shift(families) * math.sqrt(BETWEEN**2 + WITHIN**2 / prompts)
    rng, found = np.random.default_rng(1), 0
    for world in range(400):
        noise = rng.normal(0, WITHIN, (families, prompts)).mean(axis=1)
        differences = shift + rng.normal(0, BETWEEN, families) + noise
        found += sign_flip_effect(differences, random_stream(world)).p <= 0.05
    assert 0.75 < found / 400 < 0.85
    assert math.isnan(smallest_shift(5)) and smallest_shift(200) == pytest.approx(smallest_shift(50) / 2, rel=0.06)


def test_the_deviation_follows_the_prompts_of_a_family(tmp_path):
    """400 families of 6 prompts are recorded; an experiment may have fewer or more in each."""
    rng, family = np.random.default_rng(0), np.repeat(np.arange(400), 6)
    names = {"prompt_id": [f"p{n}" for n in range(2400)], "family": [f"f{n}" for n in family], "split": "ood"}
    base = pd.DataFrame(names | {PIT: rng.random(2400)})
    change = rng.normal(0, BETWEEN, 400)[family] + rng.normal(0, WITHIN, 2400)
    for condition, table in (("base", base), ("soft", base.assign(**{PIT: base[PIT] + change}))):
        row = metric_row("structured", "m", condition, "ood", PIT, 0.5)
        write_fabricated(tmp_path, [row], per_prompt=table.sample(frac=1, random_state=len(condition)))
    recorded, contrast = read_evaluations(tmp_path), Contrast("structured", PIT, "ood", "soft", "base", "lower")
    for prompts in (1, 6, 50):
        expected = math.sqrt(BETWEEN**2 + WITHIN**2 / prompts)
        assert pair_variances(recorded, contrast, "m").deviation(prompts) == pytest.approx(expected, rel=0.05)
    missing = Contrast("structured", PIT, "ood", "hard", "base", "lower")
    assert math.isnan(pair_variances(recorded, missing, "m").deviation(1))


def test_items_and_answers_are_pairs_themselves(tmp_path):
    """Of 500 items 100 are lost; of answers 70% are on one letter, or 50% and 40% on two."""
    right = np.arange(500) % 5 > 0
    for condition, lost, counts in (("base", 0, [10, 70, 10, 10]), ("soft", right < 1, [50, 5, 40, 5])):
        items = pd.DataFrame({"split": "tinyMMLU", "item": range(500), "value": 1.0 - lost})
        rows = [metric_row("retention", "m", condition, "tinyMMLU", "accuracy", 0.5)]
        write_fabricated(tmp_path, rows, per_prompt=items)
        letters = pd.DataFrame([dict(zip(LETTER_COUNTS, counts, strict=True))])
        rows = [metric_row("mcq", "m", condition, "mcq", "mcq_total_variation", 0.5)]
        write_fabricated(tmp_path, rows, per_prompt=letters)
    recorded = read_evaluations(tmp_path)
    found = {
        split: pair_variances(recorded, Contrast(axis, metric, split, "soft", "base", "lower"), "m").deviation(1) ** 2
        for axis, split, metric in (("retention", "tinyMMLU", "accuracy"), ("mcq", "mcq", "mcq_total_variation"))
    }
    assert found["tinyMMLU"] == pytest.approx(0.2 * 0.8 * 500 / 499)
    assert found["mcq"] == pytest.approx(0.7 * 0.3 + 0.9 * 0.1)
