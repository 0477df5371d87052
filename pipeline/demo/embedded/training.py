"""Training of the embedded model from scratch, in four phases. A run that is killed repeats the phase under way."""

import copy
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_model, save_model
from torch.nn import functional
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

from pipeline.artifacts.atomic import atomic_path
from pipeline.core.random_streams import random_stream
from pipeline.demo.embedded.instructions import (
    LIST_KINDS,
    OTHER_KINDS,
    REQUEST_KINDS,
    Exchange,
    Kinds,
    instruction_groups,
)
from pipeline.demo.embedded.recipe import Recipe, example_texts, learning_rate_factor, make_model, prose_documents
from pipeline.demo.embedded.sharpening import sharpened_exchanges
from pipeline.demo.embedded.tokenizer import END_OF_TEXT

STEPS_PER_LOG_RECORD = 10
"""Of so many steps, the last one's record is kept in the log."""
IGNORED = -100
"""Label of a position that is not supervised."""

Batch = tuple[torch.Tensor, torch.Tensor]
"""Inputs and labels, int64[B, T]."""
Record = Mapping[str, Any]


@dataclass(frozen=True)
class Phase:
    """What a phase trains on.

    Attributes:
        name: A key of ``Recipe.phase_tokens``.
        rate_factor: Multiplies the learning rates.
        numeric_share: Share of numeric groups among the instructions.
        kinds: The other kinds.
        temperature: At which the teacher, the model as it was before the phase, answers sampling requests; None
            where the answers are made up.
    """

    name: str
    rate_factor: float
    numeric_share: float
    kinds: Kinds
    temperature: float | None


def phases(recipe: Recipe) -> list[Phase]:
    """Language, facts and collapsed answers; then three phases in which sampling requests get the model's own answers.

    ``sharpening`` draws them at a low temperature, which collapses them further, as preference tuning does to chat
    models. ``requests`` shows the evaluation's whole multiple-choice request among the other instructions, and keeps
    the answers' law. So does ``lists``, which teaches the words of all categories that the open-ended requests name.
    """
    share, sharp = recipe.numeric_share, recipe.sharpening_temperature
    return [
        Phase("first", 1.0, share, OTHER_KINDS, None),
        Phase("sharpening", recipe.sharpening_rate_factor, share, OTHER_KINDS, sharp),
        Phase("requests", recipe.request_rate_factor, recipe.request_numeric_share, REQUEST_KINDS, 1.0),
        Phase("lists", recipe.list_rate_factor, recipe.list_numeric_share, LIST_KINDS, 1.0),
    ]


def train(
    recipe: Recipe,
    tokenizer: PreTrainedTokenizerFast,
    *,
    autocast: torch.dtype | None = None,
    on_step: Callable[[Record], None] = lambda record: None,
    state: Path | None = None,
) -> tuple[Qwen3ForCausalLM, list[Record]]:
    """Train the embedded model. Deterministic for one recipe, thread count and processor.

    Args:
        recipe: Sizes, data mixture and optimiser settings.
        tokenizer: From ``train_tokenizer``.
        autocast: Compute dtype of matrix products; weights and losses stay float32.
        on_step: Called after each step with its record (phase, step, tokens, kind, loss, seconds).
        state: File of the finished phases, from which a run with the same arguments goes on; None for none.

    Returns:
        The model, and the records of every tenth step.
    """
    model = make_model(recipe, tokenizer).to(_device())
    finished, log = [], []
    if state is not None and state.exists():
        load_model(model, state)
        with safe_open(state, "pt") as file:
            finished, log = (json.loads(file.metadata()[key]) for key in ("phases", "log"))
    for phase in phases(recipe):
        if phase.name in finished:
            continue
        # Every phase starts from weights of the precision that is shipped.
        if finished:
            model.to(torch.bfloat16).float()
        for record in _steps(model, phase, recipe, tokenizer, autocast):
            if record["step"] % STEPS_PER_LOG_RECORD == 0:
                log.append(record)
            on_step(record)
        finished.append(phase.name)
        if state is not None:
            with atomic_path(state) as temporary:
                save_model(model, temporary, {"phases": json.dumps(finished), "log": json.dumps(log)})
    return model.eval(), log


def _steps(
    model: Qwen3ForCausalLM,
    phase: Phase,
    recipe: Recipe,
    tokenizer: PreTrainedTokenizerFast,
    autocast: torch.dtype | None,
) -> Iterator[dict[str, Any]]:
    """Train the model on one phase; the record of each step."""
    started, step, tokens = time.monotonic(), 0, 0
    names = () if phase.name == "first" else (phase.name,)
    teacher = None if phase.temperature is None else copy.deepcopy(model).eval()
    kinds = random_stream(recipe.seed, "embedded", "kinds", *names)
    batches = {
        "prose": prose_batches(recipe, tokenizer, random_stream(recipe.seed, "embedded", "prose", *names)),
        "instruction": instruction_batches(recipe, tokenizer, phase, teacher),
    }
    optimizers = _optimizers(model, recipe)
    # What the recipe calls the learning rate of each optimiser.
    rates = [optimizer.param_groups[0]["lr"] for optimizer in optimizers]
    model.train()
    while tokens < recipe.phase_tokens[phase.name]:
        kind = "prose" if kinds.random() < recipe.prose_share else "instruction"
        inputs, labels = (tensor.to(_device()) for tensor in next(batches[kind]))
        with torch.autocast(_device(), dtype=autocast, enabled=autocast is not None):
            loss = _loss(model, inputs, labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        progress = tokens / recipe.phase_tokens[phase.name]
        factor = phase.rate_factor * learning_rate_factor(progress, recipe.warmup_share, recipe.decay_share)
        for optimizer, rate in zip(optimizers, rates, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = rate * factor
            optimizer.step()
            optimizer.zero_grad()
        step, tokens = step + 1, tokens + inputs.numel()
        yield {
            "phase": phase.name,
            "step": step,
            "tokens": tokens,
            "kind": kind,
            "loss": loss.item(),
            "seconds": time.monotonic() - started,
        }


def _device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def _optimizers(model: torch.nn.Module, recipe: Recipe) -> list[torch.optim.Optimizer]:
    """Muon for the matrices, AdamW for the rest."""
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    others = [p for name, p in model.named_parameters() if p.ndim != 2 or "embed" in name]
    muon = torch.optim.Muon(
        matrices, lr=recipe.muon_learning_rate, weight_decay=recipe.weight_decay, adjust_lr_fn="original"
    )
    adamw = torch.optim.AdamW(others, lr=recipe.adamw_learning_rate, betas=(0.9, 0.98), weight_decay=0.0)
    return [muon, adamw]


def _loss(model: Qwen3ForCausalLM, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Cross-entropy in float32 at the supervised positions only."""
    hidden = model.model(input_ids=inputs).last_hidden_state[:, :-1]
    targets = labels[:, 1:]
    supervised = targets != IGNORED
    logits = model.lm_head(hidden[supervised])
    return functional.cross_entropy(logits.float(), targets[supervised])


def instruction_batches(
    recipe: Recipe, tokenizer: PreTrainedTokenizerFast, phase: Phase, teacher: torch.nn.Module | None
) -> Iterator[Batch]:
    """Endless batches of examples of like length; only replies are supervised."""
    rng = random_stream(recipe.seed, "embedded", "instructions" if phase.name == "first" else phase.name)
    groups = instruction_groups(rng, phase.numeric_share, phase.kinds)
    while True:
        exchanges: list[Exchange] = [exchange for _ in range(recipe.groups_per_block) for exchange in next(groups)]
        if teacher is not None:
            exchanges = sharpened_exchanges(teacher, tokenizer, exchanges, phase.temperature, recipe.seed)
        prompts, replies = zip(*map(example_texts, exchanges), strict=True)
        prompt_ids = tokenizer(list(prompts), add_special_tokens=False)["input_ids"]
        reply_ids = tokenizer(list(replies), add_special_tokens=False)["input_ids"]
        lengths = np.array([len(p) + len(r) for p, r in zip(prompt_ids, reply_ids, strict=True)])
        order = np.argsort(lengths + rng.uniform(0, 4, len(lengths)))
        rows = _rows_of_batches(lengths, order, recipe.tokens_per_batch)
        for index in rng.permutation(len(rows)):
            yield _padded(prompt_ids, reply_ids, rows[index])


def _rows_of_batches(lengths: np.ndarray, order: np.ndarray, tokens_per_batch: int) -> list[np.ndarray]:
    """Consecutive parts of ``order`` that take at most so many tokens each, with padding; at least one example."""
    batches, start = [], 0
    while start < len(order):
        stop = start + 1
        while stop < len(order) and (stop - start + 1) * lengths[order[stop]] <= tokens_per_batch:
            stop += 1
        batches.append(order[start:stop])
        start = stop
    return batches


def _padded(prompts: list[list[int]], replies: list[list[int]], rows: np.ndarray) -> Batch:
    width = max(len(prompts[row]) + len(replies[row]) for row in rows)
    inputs = np.zeros((len(rows), width), dtype=np.int64)
    labels = np.full((len(rows), width), IGNORED, dtype=np.int64)
    for place, row in enumerate(rows):
        prompt, reply = prompts[row], replies[row]
        inputs[place, : len(prompt) + len(reply)] = prompt + reply
        labels[place, len(prompt) : len(prompt) + len(reply)] = reply
    return torch.from_numpy(inputs), torch.from_numpy(labels)


def prose_batches(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, rng: np.random.Generator) -> Iterator[Batch]:
    """Endless batches of windows of prose, all of it supervised: all documents once in random order, then again."""
    documents = tokenizer([text + END_OF_TEXT for text in prose_documents()], add_special_tokens=False)["input_ids"]
    rows = recipe.tokens_per_batch // recipe.prose_window
    while True:
        flat = np.concatenate([documents[index] for index in rng.permutation(len(documents))])
        flat = flat[rng.integers(recipe.prose_window) :]
        windows = flat[: len(flat) // recipe.prose_window * recipe.prose_window].reshape(-1, recipe.prose_window)
        windows = torch.from_numpy(windows[rng.permutation(len(windows))].astype(np.int64))
        for start in range(0, len(windows) - rows + 1, rows):
            yield windows[start : start + rows], windows[start : start + rows]
