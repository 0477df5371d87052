"""Uncertainty from answers to reported numbers: a model that is unsure where people disagree, and one that is not."""

import math

import numpy as np
import pandas as pd
import pytest

from pipeline.axes.questions.question import HumanClass, Question
from pipeline.core.semantics.uncertainty import token_measures
from pipeline.core.semantics.uncertainty_metrics import CHOICE_MEASURES, MEASURES, metric_rows, question_row

WORDS = ("red fox", "blue whale", "green frog", "white owl", "black cat")
CERTAIN, STEPS = (np.array([1.0]), 0.0, 50), token_measures(np.array([1.0, 0.0]))


def table_of(like_people, size=60):
    """Questions of two and of five classes; a model with people's law, or with a law of its own."""
    rng = np.random.default_rng(0)
    rows = []
    for place in range(size):
        classes = (2, 5)[place % 2]
        people = rng.dirichlet(np.ones(classes))
        law = people if like_people else rng.dirichlet(np.ones(classes))
        names = WORDS[:classes]
        human = tuple(HumanClass(name, int(c) + 1, (name,)) for name, c in zip(names, 100 * people, strict=True))
        gold = (names[rng.choice(classes, p=people)],)
        question = Question(f"q{place}", "?", gold=gold, human=human, num_people=sum(item.count for item in human))
        drawn = rng.multinomial(50, law)
        counts = {name: int(count) for name, count in zip(names, drawn, strict=True) if count}
        answers, entropy = np.repeat(names, drawn).tolist(), float(-(law * np.log(law)).sum())
        found = answers, law, entropy, 1000, law / 2, token_measures(law), float(rng.poisson(5))
        rows.append(question_row(question, counts, *found, rng))
    return pd.DataFrame(rows)


def rows_of(table, base=None):
    rows = metric_rows(table, table if base is None else base, seed=0, names=("x",), replicates=100)
    return {row["metric"]: row for row in rows}


@pytest.fixture(scope="module")
def tables():
    return table_of(like_people=True), table_of(like_people=False)


def test_a_model_with_people_s_laws_is_unsure_where_they_disagree(tables):
    table, other = tables
    rows = rows_of(table, other)
    for measure in MEASURES:
        row = rows[f"uncertainty_{measure}_partial_pearson"]
        assert row["value"] > 0.3 and row["ci_low"] > 0, measure
        assert rows[f"uncertainty_{measure}_permutation_p"]["value"] < 0.05
        # It is better at it than the model that answers independently, on the same questions.
        change = rows[f"uncertainty_{measure}_partial_pearson_difference"]
        assert change["ci_low"] < change["value"] < change["ci_high"] and change["value"] > 0.3
    semantic = rows["uncertainty_semantic_entropy_partial_pearson_difference"]
    assert semantic["ci_low"] > 0.3
    # Right answers are drawn from its own law: the surer, the more often right.
    assert rows["uncertainty_semantic_entropy_auroc"]["value"] > 0.6
    assert rows["uncertainty_semantic_entropy_auroc_difference"]["value"] > 0
    ratio = rows["uncertainty_semantic_entropy_rejection_ratio"]["value"]
    assert ratio == pytest.approx(2 * rows["uncertainty_semantic_entropy_auroc"]["value"] - 1)
    assert table[list(MEASURES)].notna().all(axis=None) and (table["classes"] >= 2).all()


def test_a_condition_compared_with_itself_has_not_changed(tables):
    rows = rows_of(tables[0])
    changes = [row for name, row in rows.items() if name.endswith("_difference")]
    assert len(changes) == 2 * len(MEASURES)
    assert all(row["value"] == row["ci_low"] == row["ci_high"] == 0 for row in changes)


def test_an_independent_model_is_not_although_the_raw_correlation_says_so(tables):
    rows = rows_of(tables[1])
    assert rows["uncertainty_semantic_entropy_raw_pearson"]["value"] > 0.3
    partial = rows["uncertainty_semantic_entropy_partial_pearson"]
    assert partial["ci_low"] < 0 < partial["ci_high"]
    assert rows["uncertainty_semantic_entropy_permutation_p"]["value"] > 0.05


def test_a_certain_model_and_a_question_without_people():
    question, rng = Question("q", "?", gold=("a",)), np.random.default_rng(0)
    row = question_row(question, {"a": 4}, ["Owl", "owl", "owl.", "the owl"], *CERTAIN, [], STEPS, 2.0, rng)
    found = {measure: row[measure] for measure in MEASURES}
    assert all(math.isnan(found.pop(measure)) for measure in CHOICE_MEASURES)
    # One cluster of answers.
    assert found.pop("laplacian_eigenvalues") == pytest.approx(1)
    assert set(found.values()) == {0}
    assert row["right"] == 1 and math.isnan(row["people_entropy_nats"])
    table = pd.DataFrame([row])
    rows = metric_rows(table, table, seed=0, names=(), replicates=20)
    assert all(math.isnan(each["value"]) or each["metric"].endswith("coverage") for each in rows)
    assert not any("choice" in each["metric"] for each in rows)
    # Nothing is alike or unlike in a single reply.
    row = question_row(question, {"a": 1}, [None], *CERTAIN, [], STEPS, 2.0, rng)
    assert math.isnan(row["lexical_dissimilarity"]) and math.isnan(row["laplacian_eigenvalues"])


def test_equal_sets_of_answers_are_tied_in_whatever_order_they_were_drawn():
    question, rng = Question("q", "?", gold=("a",)), np.random.default_rng(0)
    drawn = ["the owl"] * 5 + ["an owl"] * 3 + ["a small brown owl"] * 2 + ["owl"] * 2 + ["barn owl"]
    rows = []
    for _ in range(20):
        answers = rng.permutation(drawn).tolist()
        counts = {name: answers.count(name) for name in dict.fromkeys(answers)}
        rows.append(question_row(question, counts, answers, *CERTAIN, [], STEPS, 2.0, rng))
    for measure in ("semantic_entropy", "answer_uncertainty", "lexical_dissimilarity", "laplacian_eigenvalues"):
        assert len({row[measure] for row in rows}) == 1, measure
        assert 0.1 < rows[0][measure] < 5


def test_measures_of_steps_are_those_of_the_steps_alone():
    question, law = Question("q", "?", gold=("a",)), np.array([0.5, 0.3, 0.2])
    steps = {name: value / 2 for name, value in token_measures(law).items()}
    row = question_row(question, {"a": 4}, ["a"] * 4, *CERTAIN, [], steps, 2.0, np.random.default_rng(0))
    assert row["token_entropy"] == row["token_surprise"] == row["nucleus_75_entropy"] == 0
    assert row["mean_token_entropy"] == pytest.approx(-(law * np.log(law)).sum() / math.log(3) / 2)
    assert row["mean_token_surprise"] == pytest.approx(math.log(2) / 2)
    # The nucleus holds the first two.
    kept = np.array([0.625, 0.375])
    assert row["mean_nucleus_75_entropy"] == pytest.approx(-(kept * np.log(kept)).sum() / math.log(2) / 2)


def test_choices_are_measured_where_there_are_options(tables):
    table = tables[0].copy()
    assert table["choice_mass"].to_numpy() == pytest.approx(0.5)
    # Renormalised over the options, whatever the law of the other tokens.
    people = [0.5, 0.3, 0.2]
    question, rng = Question("q", "?", options=("x", "y", "z"), gold=("x",)), np.random.default_rng(0)
    row = question_row(question, {"x": 4}, ["x"] * 4, *CERTAIN, np.array(people) / 4, STEPS, 2.0, rng)
    assert row["choice_entropy"] == pytest.approx(-sum(p * math.log(p) for p in people) / math.log(3))
    assert row["choice_surprise"] == pytest.approx(-math.log(0.5)) and row["choice_mass"] == pytest.approx(0.25)
    # Over these questions alone, and the other measures over all as before.
    table.loc[::2, list(CHOICE_MEASURES)] = math.nan
    rows, whole = rows_of(table), rows_of(tables[0])
    for name in ("partial_pearson", "auroc"):
        assert rows[f"uncertainty_choice_entropy_{name}"]["n"] == len(table) // 2
        assert rows[f"uncertainty_token_entropy_{name}"] == whole[f"uncertainty_token_entropy_{name}"]
