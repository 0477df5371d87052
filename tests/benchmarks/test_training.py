"""The training benchmarks run and compare like with like; the figures themselves are not checked."""

import numpy as np
import pytest
import torch

from benchmarks import anchors, estimators, training
from benchmarks.workload import make_model, make_workload
from pipeline.engines.loading.model import position_logits

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def logits_at():
    return position_logits(make_model("embedded"))


@pytest.mark.parametrize("case", training.CASES)
def test_implementations_of_a_step_have_the_same_loss_and_gradient(logits_at, case):
    workload = make_workload(1, 11)
    results = []
    for implementation in training.CASES[case]:
        step, _ = training.make_step(case, implementation, logits_at, workload)
        logits_at.model.zero_grad()
        loss = step()
        gradients = [parameter.grad.clone() for parameter in logits_at.model.parameters() if parameter.requires_grad]
        results.append((loss, torch.cat([gradient.flatten() for gradient in gradients])))
    for loss, gradient in results[1:]:
        assert loss == pytest.approx(results[0][0], rel=1e-4)
        assert (gradient - results[0][1]).norm() < 1e-3 * results[0][1].norm()


def test_exact_gradients_are_the_means_of_the_sampled_ones(logits_at):
    workload = make_workload(1, 5)
    for name, whole in (("soft path", estimators.exact_soft), ("hard c=1", estimators.exact_hard)):
        objective, make = estimators.ESTIMATORS[name]
        exact = estimators.gradient(logits_at, whole(workload), objective)
        many = [example for draw in range(120) for example in make(workload, draw)]
        sampled = estimators.gradient(logits_at, many, objective)
        assert np.linalg.norm(sampled - exact) < 0.3 * np.linalg.norm(exact), name


def test_run_returns_one_row_per_estimator():
    chosen = ["soft path", "soft exact"]
    rows = estimators.run(max_bins=5, num_prompts=2, draws=2, training_steps=1, estimators=chosen)
    assert [row["implementation"] for row in rows] == chosen
    assert rows[0]["ratio"] == 1 and rows[1]["variance_strings"] < 1e-6 < rows[0]["variance_strings"]


def test_anchors_add_to_the_loss_of_a_step_and_take_nothing_from_it(monkeypatch):
    monkeypatch.setattr(anchors, "INSTRUCTION_TOKENS", 3)
    monkeypatch.setattr(anchors, "REPLY_TOKENS", 5)
    # Processes of their own have a test in test_benchmarks.py.
    monkeypatch.setattr(anchors, "in_subprocess", lambda module, function, **sizes: getattr(anchors, function)(**sizes))
    losses = {name: step() for name, step in anchors.make_steps(1, 1).items()}
    # Fresh random replies of a model whose adapter does next to nothing: no divergence, and the cost of random text.
    assert losses["soft"] == pytest.approx(losses["soft, 8 forward"], rel=1e-2)
    assert losses["soft, 8 replayed"] > losses["soft"] + 3
    assert [row["implementation"] for row in anchors.run(1, 1, 1)] == list(anchors.IMPLEMENTATIONS)
