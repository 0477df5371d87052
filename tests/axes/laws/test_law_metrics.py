"""Answers and exact laws against finite laws: by brute force, SciPy, and samplers whose distance is known."""

import numpy as np
import pandas as pd
import pytest

from pipeline.artifacts.scores import LAW_EXACT_COLUMNS
from pipeline.axes.laws.figures import binned_shares
from pipeline.axes.laws.law_metrics import class_counts, evaluate_law, summaries
from pipeline.axes.laws.score import exact_figures
from pipeline.core.laws.discretize import finite_space
from pipeline.core.laws.finite_law import categorical_law, numeric_law
from pipeline.core.prompts.number_answers import Invalid
from pipeline.core.prompts.structured import Prompt
from pipeline.core.statistics.summarise import summarise
from pipeline.core.tries.trie import build_trie

LAW = categorical_law({"New York": 0.5, "New": 0.3, "empty": 0.2}, {"New York": ["New York", "NYC"]})


def prompt(law, name="p", family="city", split="held_out_template") -> Prompt:
    return Prompt(name, split, family, "", {"region": "N"}, "text", law)


def test_answers_count_by_class_and_reasons_are_no_strings():
    answers = ["NYC", '"New York"', "New", "new", Invalid.EMPTY, "", "York", " empty "]
    counts, invalid = class_counts(answers, LAW)
    assert counts.tolist() == [2, 1, 1] and invalid == {"out_of_support": 2, "empty": 2}
    found = evaluate_law(prompt(LAW), answers, seed=0, names=("m", "base"), floor_replicates=20)
    assert found["law_total_variation"] == pytest.approx((0 + 0.05 + 0.05) / 2)
    assert (found["num_valid"], found["invalid_empty"]) == (4, 2)
    assert found["chance"] == [0.5, 0.3, 0.2] and found["share"] == [0.5, 0.25, 0.25]
    assert found["law_chance_gap"] == pytest.approx(0.1 / 3)


def test_the_exact_figures_are_those_of_the_model_written_out():
    sequences = [[ord(c) for c in text] for text in LAW.strings]
    space = finite_space(LAW)
    trie = build_trie(sequences, space.probabilities, 0)
    # A model that is right at every step but the first, where it puts a tenth of its mass elsewhere.
    scores = np.log(trie.edge_probabilities)
    scores[trie.children(0)] += np.log(0.9)
    found = exact_figures(LAW, space, sequences, trie, scores)
    assert found["law_exact_total_variation"] == pytest.approx(0.1)
    # Moving mass between spellings of one class is no distance.
    swapped = np.array([0.4, 0.1, 0.3, 0.2])
    other = np.log(build_trie(sequences, swapped, 0).edge_probabilities)
    assert exact_figures(LAW, space, sequences, trie, other)["law_exact_total_variation"] == pytest.approx(0)


def test_w1_of_a_column_of_numbers_is_in_its_own_width():
    law = numeric_law(np.arange(0, 101), np.ones(101), 1)
    sequences = [[ord(c) for c in text] for text in law.strings]
    space = finite_space(law)
    trie = build_trie(sequences, space.probabilities, 0)
    always_least = np.where(np.arange(101) == 0, 1 - 1e-9, 1e-11)
    scores = np.log(build_trie(sequences, always_least / always_least.sum(), 0).edge_probabilities)
    found = exact_figures(law, space, sequences, trie, scores)
    assert found["law_exact_wasserstein_1_normalised"] == pytest.approx(5.0 / 9.0, rel=0.02)
    result = evaluate_law(prompt(law), ["0.0"] * 50 + ["10.1", "x"], seed=0, names=("m", "base"), floor_replicates=20)
    assert result["num_valid"] == 50 and result["law_valid_rate"] == 50 / 52
    assert result["law_wasserstein_1_normalised"] == pytest.approx(5.0 / 9.0, rel=0.03)
    assert result["floor"] < 0.1


def test_rows_of_a_split_say_perfect_of_a_perfect_sampler_and_not_of_another():
    rng = np.random.default_rng(0)
    numbers = numeric_law(np.arange(1, 7), np.ones(6), 0)

    def rows(strings, weights):
        cities = rng.choice(strings, p=weights, size=300).tolist()
        dice = [str(value) for value in rng.integers(1, 7, size=300)]
        prompts = [prompt(LAW, "a"), prompt(LAW, "b"), prompt(numbers, "c", "dice")]
        results = [
            evaluate_law(each, answers, seed=0, names=("m", "soft"), floor_replicates=200)
            for each, answers in zip(prompts, (cities, cities[::-1], dice), strict=True)
        ]
        table = pd.DataFrame(results)
        table = table.assign(condition="soft", **dict.fromkeys(LAW_EXACT_COLUMNS, np.nan))
        found = [
            row
            for part, numbers, by_law in summaries(table)
            for row in summarise(part, numbers, seed=0, names=("m",), replicates=200, by_family=by_law)
        ]
        return {(row["metric"], row["family"]): row for row in found}

    good = rows(["New York", "New", "empty"], [0.5, 0.3, 0.2])
    bad = rows(["New York", "New", "empty"], [0.9, 0.05, 0.05])
    tv = ("law_total_variation", "city")
    assert good[tv]["value"] < 3 * good[tv]["floor"] and bad[tv]["value"] == pytest.approx(0.4, abs=0.06)
    assert bad[tv]["ci_low"] < bad[tv]["value"] < bad[tv]["ci_high"] and bad[tv]["ci_low"] > good[tv]["ci_high"]
    assert good["law_total_variation", ""]["value"] == good[tv]["value"], "numbers have no total variation"
    assert ("law_total_variation", "dice") not in good and ("law_wasserstein_1_normalised", "dice") in good
    assert good["law_valid_rate", ""]["value"] == 1 and not any(metric in LAW_EXACT_COLUMNS for metric, _ in good)


def test_options_are_averaged_by_the_nearest_tenth_of_their_chance():
    found = binned_shares(np.array([0.02, 0.0, 0.3, 0.95, 1.0, 0.35]), np.array([0.0, 0.1, 0.2, 0.9, 1.0, 0.4]))
    assert found.index.tolist() == [0, 3, 4, 10] and found["chance"].tolist() == [0.01, 0.3, 0.35, 0.975]
    assert found["half_width"].tolist() == pytest.approx([1.96 * 0.05, 0, 0, 1.96 * 0.05])
