"""Seconds and memory of one training step (forward and backward), against the obvious loop.

Implementations of the soft step (one path behind each prompt):

- ``plain``: logits of the whole batch, then log_softmax at one position after the other;
  timed once.
- ``full``: logits of the whole batch, then all supervised positions at once.
- ``gathered``: hidden states of the supervised positions only go through the head.
- ``chunked``: and their logits exist a few positions at a time.
- ``recomputed``: the same by activation checkpointing, which runs the head twice.

Implementations of the hard step (16 completions of each prompt): ``plain`` and ``unpacked``, one
row per completion; ``packed``, one row per prompt.

Every case runs in a process of its own. ``peak_mb`` is how far its resident set rises above what it
is after the model was loaded (Linux).
"""

import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint

from benchmarks.measure import in_subprocess
from benchmarks.workload import Workload, make_model, make_workload
from pipeline.core.training.batches import Batch, collate
from pipeline.core.training.examples import Example
from pipeline.core.training.objectives import Objective, hard_target_loss, soft_target_loss
from pipeline.engines.loading.model import PositionLogits, position_logits
from pipeline.engines.training.fit import LOGITS_PER_CHUNK, backward_pass

COMPLETIONS = 16
CASES = {"soft": ("plain", "full", "gathered", "chunked", "recomputed"), "hard": ("plain", "unpacked", "packed")}
MODELS = ("embedded", "large_vocabulary")
# Prompts of a step; the plain loop's time grows with positions times the logits of the whole batch.
SIZES = {
    ("soft", "embedded"): 16,
    ("hard", "embedded"): 4,
    ("soft", "large_vocabulary"): 8,
    ("hard", "large_vocabulary"): 1,
}
# Small enough that the benchmark's few positions make several chunks.
SMALL_CHUNK = 1 << 22


def plain_step(logits_at: PositionLogits, examples: list[Example], soft: bool) -> float:
    """The objective as it reads: every logit of the batch, one position after the other."""
    batch = collate(examples, 0)
    logits = logits_at.model(input_ids=batch.input_ids, attention_mask=batch.attention_mask).logits
    loss = torch.zeros(())
    for row, example in enumerate(examples):
        for index, node in enumerate(example.nodes.tolist()):
            log_model = torch.log_softmax(logits[row, len(example.prompt_ids) + node].float(), dim=-1)
            span = slice(*example.offsets[index : index + 2])
            ids, probabilities = example.token_ids[span], example.probabilities[span]
            q = torch.from_numpy(probabilities).float()
            term = -(q * log_model[torch.from_numpy(ids)]).sum()
            if soft:
                term = term + torch.xlogy(q, q).sum()
            loss = loss + term * float(example.weights[index]) / len(examples)
    loss.backward()
    return loss.item()


def recomputed_step(logits_at: PositionLogits, batch: Batch, objective: Objective, logits_per_chunk: int) -> float:
    """Chunks whose logits are thrown away and computed again in the backward pass."""
    states = logits_at.states(batch.input_ids, batch.attention_mask, batch.rows, batch.columns)
    positions = logits_per_chunk // logits_at.vocabulary
    loss = torch.zeros(())
    for chunk, targets in zip(states.split(positions), batch.targets.split(positions), strict=True):
        loss = loss + checkpoint(
            lambda chunk, targets: objective(logits_at.head(chunk), targets, 1.0), chunk, targets, use_reentrant=False
        )
    loss.backward()
    return loss.item()


def make_step(
    case: str, implementation: str, logits_at: PositionLogits, workload: Workload
) -> tuple[Callable[[], float], list[Example]]:
    """A function that runs one step and returns its loss, and the step's examples."""
    objective = soft_target_loss if case == "soft" else hard_target_loss
    examples = workload.soft(0) if case == "soft" else workload.hard(0, COMPLETIONS, implementation == "packed")
    if implementation == "plain":
        return lambda: plain_step(logits_at, examples, case == "soft"), examples
    if implementation == "recomputed":
        return lambda: recomputed_step(logits_at, collate(examples, 0), objective, SMALL_CHUNK), examples
    if implementation == "full":
        logits_at = PositionLogits(logits_at.model, False)
    chunk = {"full": 1 << 62, "gathered": 1 << 62, "chunked": SMALL_CHUNK}.get(implementation, LOGITS_PER_CHUNK)
    return lambda: float(backward_pass(logits_at, collate(examples, 0), objective, 1.0, chunk)), examples


def reset_peak() -> None:
    """Let the peak start again at the current resident set: loading takes more than what stays."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_megabytes() -> float:
    """Largest resident set since ``reset_peak``, MB."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def measure(case: str, model_name: str, implementation: str, num_prompts: int, repeats: int) -> dict:
    """Time one implementation in this process."""
    torch.set_num_threads(2)
    workload = make_workload(num_prompts, max_bins=101)
    model = make_model(model_name)
    logits_at = position_logits(model)
    model.train()
    step, examples = make_step(case, implementation, logits_at, workload)
    reset_peak()
    loaded = peak_megabytes()
    if implementation == "plain":
        repeats = 1  # too slow to repeat, and slow enough to need no warm-up
    else:
        step()
    seconds = []
    for _ in range(repeats):
        model.zero_grad()
        started = time.perf_counter()
        loss = step()
        seconds.append(time.perf_counter() - started)
    return {
        "case": f"{case}, {model_name}",
        "implementation": implementation,
        "seconds": float(np.median(seconds)),
        "peak_mb": peak_megabytes() - loaded,
        "loss": loss,
        "tokens": sum(example.num_inputs for example in examples),
        "positions": sum(len(example.nodes) for example in examples),
    }


def run(cases: Iterable[str] = tuple(CASES), models: Iterable[str] = MODELS, repeats: int = 5) -> list[dict]:
    """Measure every implementation of the cases."""
    results = []
    for model in models:
        for case in cases:
            group = []
            for implementation in CASES[case]:
                result = in_subprocess(
                    "benchmarks.training",
                    "measure",
                    case=case,
                    model_name=model,
                    implementation=implementation,
                    num_prompts=SIZES[case, model],
                    repeats=repeats,
                )
                result.pop("retained_mb")
                group.append(result)
                group[-1]["ratio"] = group[0]["seconds"] / group[-1]["seconds"]
            results.extend(group)
    return results
