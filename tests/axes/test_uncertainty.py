"""Uncertainty: closed forms of the measures, and worlds in which alignment with people is known."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from pipeline.axes.questions.answers import Answers, auroc, auroc_problem
from pipeline.axes.questions.question import HumanClass, Question
from pipeline.axes.uncertainty.evaluate import (
    OF_PEOPLE,
    laplacian_eigenvalues,
    longest_common_share,
    people_ceiling,
    question_row,
    rank_correlation,
    relative_entropy,
    spearman_of,
)
from pipeline.axes.uncertainty.metrics import MEASURES
from pipeline.core.language.diversity import chao_wang_jost_entropy, plug_in_entropy
from pipeline.core.statistics.summarise import summarise


def test_measures_of_known_laws():
    assert relative_entropy([0.5, 0.3]) == pytest.approx(0.9544, abs=5e-5)
    assert relative_entropy([1.0]) == 0 and relative_entropy(np.full(7, 1 / 7)) == pytest.approx(1)


def test_eigenvalues_count_clusters():
    assert laplacian_eigenvalues(np.ones((6, 6))) == pytest.approx(1)
    assert laplacian_eigenvalues(np.eye(6)) == pytest.approx(6)
    assert laplacian_eigenvalues(np.kron(np.eye(2), np.ones((3, 3)))) == pytest.approx(2)
    assert longest_common_share(["a", "b", "c"], ["a", "c"]) == pytest.approx(4 / 5)
    assert longest_common_share(["a"], ["x"]) == longest_common_share([], ["x"]) == 0 and longest_common_share([], [])


def test_rank_correlation_is_scipy_s_in_one_stratum_and_takes_out_means_in_several():
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 8, size=(2, 40)).astype(float)
    assert rank_correlation(first, second, np.zeros(40)) == pytest.approx(spearmanr(first, second).statistic)
    weights = rng.multinomial(40, np.full(40, 1 / 40), size=3).astype(float)
    for row, found in zip(weights, rank_correlation(first, second, np.zeros(40), weights), strict=True):
        picks = np.repeat(np.arange(40), row.astype(int))
        assert found == pytest.approx(spearmanr(first[picks], second[picks]).statistic)
    strata = np.repeat([2, 5], 20)
    assert math.isnan(rank_correlation(strata * 1.0, second, strata))


def entropy_rows(options, rng, answers=20, people=100):
    """Independent laws of a model and of people over the options of each question, by entropies of samples."""
    rows = []
    for place, number in enumerate(options):
        own, others = (rng.multinomial(size, rng.dirichlet(np.ones(number))) for size in (answers, people))
        entropies = {"semantic_entropy": plug_in_entropy(own), "people_entropy": chao_wang_jost_entropy(others)}
        rows.append({"prompt_id": str(place), "condition": "base", "options": number, **entropies})
    return pd.DataFrame(rows)


def spearman(rows):
    return summarise(rows, {"x": spearman_of("semantic_entropy")}, seed=0, names=(), replicates=100)[0]["value"]


def test_more_options_make_no_correlation():
    rows = entropy_rows(np.random.default_rng(1).integers(2, 7, size=2000), np.random.default_rng(0))
    assert spearman(rows.assign(options=0)) > 0.6 and abs(spearman(rows)) < 0.05


def test_the_ceiling_of_the_shares_that_many_people_gave():
    rng, questions = np.random.default_rng(0), []
    for place in range(30):
        counts = rng.multinomial(2000, rng.dirichlet(np.full(5, 0.7)))
        human = tuple(HumanClass(f"c{k}", {f"c{k}": int(n)}) for k, n in enumerate(counts) if n)
        questions.append(Question(str(place), "?", human=human, num_people=2000))
    assert people_ceiling(questions, rng) > 0.97


def test_auroc_with_ties_and_why_there_is_none():
    assert auroc(np.array([0.1, 0.4, 0.4, 0.9]), np.array([0, 0, 1, 1])) == pytest.approx(3.5 / 4)
    labels = np.repeat([True, False], 10)
    assert auroc_problem(np.arange(20.0), labels) == ""
    assert "ties" in auroc_problem(np.r_[np.zeros(18), 1.0, 2.0], labels)


def test_a_measure_without_probabilities_is_left_out_and_the_rest_runs():
    question = Question(
        "q", "?", gold=("a",), human=(HumanClass("a", {"a": 6}), HumanClass("b", {"b": 4})), num_people=10
    )
    answers = Answers(["a", "b", "b", None], ["a", "b", "b", None], ["a", "b", "b", "(no answer)"])
    row = question_row(question, answers, None, np.random.default_rng(0))
    assert row["semantic_entropy"] == pytest.approx(1.5 * math.log(2)) and row["top_class_uncertainty"] == 0.5
    assert row["right"] == 0 and row["options"] == 0
    assert all(math.isnan(row[name]) for name in MEASURES[3:])
    rows = pd.DataFrame([{"prompt_id": str(n), "condition": "base", **row, "people_entropy": n} for n in range(4)])
    found = {r["metric"]: r for r in summarise(rows, OF_PEOPLE, seed=0, names=(), replicates=100)}
    assert found["uncertainty_first_token_entropy_spearman"]["note"] == "no row has a value"
    assert found["uncertainty_semantic_entropy_spearman"]["note"] == "it does not vary"
