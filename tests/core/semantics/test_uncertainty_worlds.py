"""Uncertainty from answers to reported numbers: a model that is unsure where people disagree, and one that is not."""

import math

import numpy as np
import pandas as pd
import pytest

from pipeline.core.semantics.question import HumanClass, Question
from pipeline.core.semantics.uncertainty_metrics import MEASURES, metric_rows, question_row


def rows_of(like_people, size=60):
    """Questions of two and of five classes; a model with people's law, or with a law of its own."""
    rng = np.random.default_rng(0)
    rows = []
    for place in range(size):
        classes = (2, 5)[place % 2]
        people = rng.dirichlet(np.ones(classes))
        law = people if like_people else rng.dirichlet(np.ones(classes))
        names = [f"c{k}" for k in range(classes)]
        human = tuple(HumanClass(name, int(c) + 1, (name,)) for name, c in zip(names, 100 * people, strict=True))
        gold = (names[rng.choice(classes, p=law)],)
        question = Question(f"q{place}", "?", gold=gold, human=human, num_people=sum(item.count for item in human))
        counts = {name: int(count) for name, count in zip(names, rng.multinomial(50, law), strict=True) if count}
        entropy = float(-(law * np.log(law)).sum())
        rows.append(question_row(question, counts, law, entropy, 1000, float(rng.poisson(5)), rng))
    table = pd.DataFrame(rows)
    return {row["metric"]: row for row in metric_rows(table, seed=0, names=("x",), replicates=100)}, table


def test_a_model_with_people_s_laws_is_unsure_where_they_disagree():
    rows, table = rows_of(like_people=True)
    for measure in MEASURES:
        row = rows[f"uncertainty_{measure}_partial_pearson"]
        assert row["value"] > 0.5 and row["ci_low"] > 0.2, measure
        assert rows[f"uncertainty_{measure}_permutation_p"]["value"] < 0.05
    # Right answers are drawn from its own law: the surer, the more often right.
    assert rows["uncertainty_semantic_entropy_auroc"]["value"] > 0.6
    ratio = rows["uncertainty_semantic_entropy_rejection_ratio"]["value"]
    assert ratio == pytest.approx(2 * rows["uncertainty_semantic_entropy_auroc"]["value"] - 1)
    assert table[list(MEASURES)].notna().all(axis=None) and (table["classes"] >= 2).all()


def test_an_independent_model_is_not_although_the_raw_correlation_says_so():
    rows, _ = rows_of(like_people=False)
    assert rows["uncertainty_semantic_entropy_raw_pearson"]["value"] > 0.3
    partial = rows["uncertainty_semantic_entropy_partial_pearson"]
    assert partial["ci_low"] < 0 < partial["ci_high"]
    assert rows["uncertainty_semantic_entropy_permutation_p"]["value"] > 0.05


def test_a_certain_model_and_a_question_without_people():
    row = question_row(
        Question("q", "?", gold=("a",)), {"a": 4}, np.array([1.0]), 0.0, 50, 2.0, np.random.default_rng(0)
    )
    assert [row[measure] for measure in MEASURES] == [0, 0, 0, 0, 0]
    assert row["right"] == 1 and math.isnan(row["people_entropy_nats"])
    found = metric_rows(pd.DataFrame([row]), seed=0, names=(), replicates=20)
    assert all(math.isnan(each["value"]) or each["metric"].endswith("coverage") for each in found)
