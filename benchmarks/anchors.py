"""Seconds of one training step with anchors, against the same step without.

The step is the demo's: 16 prompts with four paths each, on the embedded model. Anchors are replies of 64 tokens to
instructions of 30; ``replay`` reads them once, ``forward`` twice (with the adapter switched off, too). The
implementations take turns, so that a busy machine slows all of them.
"""

import time
from collections.abc import Callable

import numpy as np
import torch

from benchmarks.measure import in_subprocess
from benchmarks.workload import make_model, make_workload
from pipeline.core.training.batches import collate
from pipeline.core.training.examples import Example, anchor_example
from pipeline.core.training.objectives import (
    Objective,
    forward_anchor_loss,
    hard_target_loss,
    soft_target_loss,
)
from pipeline.engines.loading.model import position_logits
from pipeline.engines.training.fit import LOGITS_PER_CHUNK, backward_pass

INSTRUCTION_TOKENS, REPLY_TOKENS = 30, 64
# Replies of a step by the implementation's name; "soft" has none.
IMPLEMENTATIONS: dict[str, tuple[Objective | None, int]] = {
    "soft": (None, 0),
    "soft, 8 replayed": (hard_target_loss, 8),
    "soft, 2 forward": (forward_anchor_loss, 2),
    "soft, 8 forward": (forward_anchor_loss, 8),
}


def make_steps(num_prompts: int, num_paths: int) -> dict[str, Callable[[], float]]:
    """By implementation, a function that adds a step's gradients and returns its loss in nats."""
    workload, model = make_workload(num_prompts, max_bins=101), make_model("embedded")
    logits_at = position_logits(model)
    model.train()
    soft, rng = workload.soft(0, num_paths), np.random.default_rng(0)

    def pass_of(examples: list[Example], objective: Objective) -> float:
        size = sum(example.size for example in examples)
        batch, base = collate(examples, 0, size), model if objective is forward_anchor_loss else None
        return float(backward_pass(logits_at, batch, objective, 1.0, LOGITS_PER_CHUNK, base))

    def step_of(objective: Objective | None, count: int) -> Callable[[], float]:
        drawn = rng.integers(100, 1000, (count, INSTRUCTION_TOKENS + REPLY_TOKENS)).tolist()
        replies = [anchor_example(ids[:INSTRUCTION_TOKENS], ids[INSTRUCTION_TOKENS:], max_length=512) for ids in drawn]

        def step() -> float:
            loss = pass_of(soft, soft_target_loss)
            if objective is not None:
                loss += pass_of(replies, objective)
            return loss

        return step

    return {name: step_of(*made) for name, made in IMPLEMENTATIONS.items()}


def measure(num_prompts: int, num_paths: int, repeats: int) -> dict:
    """Median seconds by implementation, in this process."""
    torch.set_num_threads(2)
    steps = make_steps(num_prompts, num_paths)
    times: dict[str, list[float]] = {name: [] for name in steps}
    for repeat in range(repeats + 1):
        for name, step in steps.items():
            started = time.perf_counter()
            step()
            # The first round warms up.
            if repeat:
                times[name].append(time.perf_counter() - started)
    return {"medians": {name: float(np.median(found)) for name, found in times.items()}}


def run(num_prompts: int = 16, num_paths: int = 4, repeats: int = 15) -> list[dict]:
    """One row per implementation; ``ratio``: seconds of the step without anchors over its own.

    Args:
        num_prompts: Of the calibration part of a step.
        num_paths: Paths of each prompt's trie.
        repeats: Timed rounds; medians count.
    """
    arguments = {"num_prompts": num_prompts, "num_paths": num_paths, "repeats": repeats}
    medians = in_subprocess("benchmarks.anchors", "measure", **arguments)["medians"]
    case = f"{num_prompts} prompts x {num_paths} paths, embedded"
    return [
        {
            "case": case,
            "implementation": name,
            "seconds": seconds,
            "ratio": medians["soft"] / seconds,
        }
        for name, seconds in medians.items()
    ]
