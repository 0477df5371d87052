"""What a second of training buys: variance of the LoRA gradient against time, by estimator.

The gradient of a step over n prompts varies because prompts differ and because strings are
drawn. With g_i the exact gradient of prompt i, g their mean, and G the estimate over all
n prompts in a draw of strings,

- ``variance_strings`` = E |G - g|^2 * n / |g|^2, per prompt, relative to the squared norm of the mean;
- ``variance_prompts`` = the trace of the covariance of the g_i, relative to |g|^2;
- ``cost`` = (variance_strings + variance_prompts) * seconds per prompt: the time that it takes to
  bring the relative variance of a step to 1. Lower is better, and no estimator goes below
  its own variance_prompts * seconds.

The exact gradients come from the whole trie, so both terms are measured against the true
mean. Hard targets have a mean of their own where string lengths differ.
"""

import time
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import torch

from benchmarks.workload import Workload, make_model, make_workload
from pipeline.core.training.batches import collate, plan_passes
from pipeline.core.training.examples import Example, exact_example
from pipeline.core.training.objectives import Objective, hard_target_loss, soft_target_loss
from pipeline.core.tries.trie import LEAF, Trie, edge_parents
from pipeline.engines.loading.model import PositionLogits, position_logits
from pipeline.engines.training.fit import LOGITS_PER_CHUNK, backward_pass

ESTIMATORS = {
    "soft path": (soft_target_loss, lambda workload, draw: workload.soft(draw)),
    "soft paths K=4": (soft_target_loss, lambda workload, draw: workload.soft(draw, 4)),
    "soft paths K=16": (soft_target_loss, lambda workload, draw: workload.soft(draw, 16)),
    "soft exact": (soft_target_loss, lambda workload, draw: exact_soft(workload)),
    "hard c=1": (hard_target_loss, lambda workload, draw: workload.hard(draw)),
    "hard c=16": (hard_target_loss, lambda workload, draw: workload.hard(draw, 16)),
}


def exact_soft(workload: Workload) -> list[Example]:
    """The whole trie behind each prompt."""
    return [exact_example(prompt, trie) for prompt, trie in zip(workload.prompts, workload.tries, strict=True)]


def exact_hard(workload: Workload) -> list[Example]:
    """Examples whose hard loss is the expectation of Eq. 4 over strings."""
    examples = []
    for example, trie in zip(exact_soft(workload), workload.tries, strict=True):
        examples.append(replace(example, probabilities=_hard_targets(trie, example.weights)))
    return examples


def _hard_targets(trie: Trie, weights: np.ndarray) -> np.ndarray:
    """float64[num_edges]: share of each edge in its prefix's weight, sum_{y through p, t} P(y) / (L_y + 1) / w(p)."""
    inner = trie.edge_children != LEAF
    parents = edge_parents(trie)
    through = np.where(inner, weights[trie.edge_children], 0.0)
    # A prefix has at most one edge to the terminator: it takes what its children leave.
    left = weights - np.bincount(parents, through, minlength=trie.num_prefixes)
    return np.where(inner, through, left[parents]) / weights[parents]


def gradient(logits_at: PositionLogits, examples: list[Example], objective: Objective) -> np.ndarray:
    """Gradient of the mean loss over ``examples`` in all LoRA weights, float64[D]."""
    parameters = [parameter for parameter in logits_at.model.parameters() if parameter.requires_grad]
    for parameter in parameters:
        parameter.grad = None
    for members in plan_passes(examples, 16, 8192):
        backward_pass(logits_at, collate(members, 0, len(examples)), objective, 1.0, LOGITS_PER_CHUNK)
    return torch.cat([parameter.grad.flatten() for parameter in parameters]).double().numpy()


def train_slightly(logits_at: PositionLogits, workload: Workload, steps: int) -> None:
    """Move the adapter off its start, where half of its gradients are zero and losses are large."""
    parameters = [parameter for parameter in logits_at.model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=2e-3)
    for step in range(steps):
        gradient(logits_at, workload.soft(10_000 + step, 4), soft_target_loss)
        optimizer.step()


def run(
    max_bins: int = 101,
    num_prompts: int = 16,
    draws: int = 8,
    training_steps: int = 10,
    estimators: Iterable[str] = tuple(ESTIMATORS),
) -> list[dict]:
    """Measure the estimators on the embedded model.

    Args:
        max_bins: Strings per trie.
        num_prompts: Prompts of a step, of different families.
        draws: Steps whose gradients give the variance and the median time.
        training_steps: Optimiser steps before.
        estimators: Keys of ``ESTIMATORS``.

    Returns:
        One dictionary per estimator: case, implementation, seconds (per step),
        ratio (cost of the method's first estimator over its own), variance_strings,
        variance_prompts, cost, tokens, positions.
    """
    torch.set_num_threads(2)
    workload = make_workload(num_prompts, max_bins)
    logits_at = position_logits(make_model("embedded"))
    train_slightly(logits_at, workload, training_steps)
    spread, results, first = {}, [], {}
    for name in estimators:
        objective, make = ESTIMATORS[name]
        if objective not in spread:
            whole = exact_soft(workload) if objective is soft_target_loss else exact_hard(workload)
            apart = np.stack([gradient(logits_at, [example], objective) for example in whole])
            mean = apart.mean(axis=0)
            spread[objective] = mean, float(((apart - mean) ** 2).sum() / (num_prompts - 1) / (mean @ mean))
        mean, variance_prompts = spread[objective]
        seconds, errors = [], []
        for draw in range(draws):
            started = time.perf_counter()
            examples = make(workload, draw)
            found = gradient(logits_at, examples, objective)
            seconds.append(time.perf_counter() - started)
            errors.append(((found - mean) ** 2).sum())
        variance_strings = float(np.mean(errors) * num_prompts / (mean @ mean))
        cost = (variance_strings + variance_prompts) * float(np.median(seconds)) / num_prompts
        first.setdefault(objective, cost)
        results.append(
            {
                "case": f"{num_prompts} prompts, {max_bins} strings",
                "implementation": name,
                "seconds": float(np.median(seconds)),
                "ratio": first[objective] / cost,
                "cost": cost,
                "variance_strings": variance_strings,
                "variance_prompts": variance_prompts,
                "tokens": sum(example.num_inputs for example in examples),
                "positions": sum(len(example.nodes) for example in examples),
            }
        )
    return results
