"""Training of the embedded model from scratch, in four phases, with exact resume."""

import copy
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

from pipeline.core.random_streams import random_stream
from pipeline.demo.embedded.batches import IGNORED, BatchStream, instruction_batches, prose_batches, random_state
from pipeline.demo.embedded.checkpoint import Checkpoint, Position, TrainingState
from pipeline.demo.embedded.instructions import LIST_KINDS, OTHER_KINDS, REQUEST_KINDS, InstructionStream, Kinds
from pipeline.demo.embedded.recipe import Recipe, learning_rate_factor, make_model
from pipeline.demo.embedded.sharpening import sharpened_exchanges

STEPS_PER_LOG_RECORD = 10
"""Of so many steps, the last one's record is kept in the log."""


@dataclass(frozen=True)
class Phase:
    """What a phase trains on.

    Attributes:
        name: A key of ``Recipe.phase_tokens``.
        stream: Name of its stream of instructions.
        rate_factor: Multiplies the learning rates.
        numeric_share: Share of numeric groups among the instructions.
        kinds: The other kinds.
        temperature: At which the teacher, the model as it was before the phase, answers sampling requests; None
            where the answers are made up.
    """

    name: str
    stream: str
    rate_factor: float
    numeric_share: float
    kinds: Kinds
    temperature: float | None

    def instructions(self, recipe: Recipe, tokenizer: PreTrainedTokenizerFast, teacher: Any) -> BatchStream:
        """The batches of instructions, from their beginning."""
        rng = random_stream(recipe.seed, "embedded", self.stream)
        source = InstructionStream(rng, self.numeric_share, self.kinds)
        if self.temperature is None:
            return instruction_batches(recipe, tokenizer, rng, source)
        return instruction_batches(
            recipe,
            tokenizer,
            rng,
            source,
            lambda exchanges: sharpened_exchanges(teacher, tokenizer, exchanges, self.temperature, recipe.seed),
        )


def phases(recipe: Recipe) -> list[Phase]:
    """Language, facts and collapsed answers; then three phases in which sampling requests get the model's own answers.

    ``sharpening`` draws them at a low temperature, which collapses them further, as preference tuning does to chat
    models. ``requests`` shows the evaluation's whole multiple-choice request among the other instructions, and keeps
    the answers' law. So does ``lists``, which teaches the words of all categories that the open-ended requests name.
    """
    return [
        Phase("first", "instructions", 1.0, recipe.numeric_share, OTHER_KINDS, None),
        Phase(
            "sharpening",
            "sharpening",
            recipe.sharpening_rate_factor,
            recipe.numeric_share,
            OTHER_KINDS,
            recipe.sharpening_temperature,
        ),
        Phase("requests", "requests", recipe.request_rate_factor, recipe.request_numeric_share, REQUEST_KINDS, 1.0),
        Phase("lists", "lists", recipe.list_rate_factor, recipe.list_numeric_share, LIST_KINDS, 1.0),
    ]


def train(
    recipe: Recipe,
    tokenizer: PreTrainedTokenizerFast,
    *,
    autocast: torch.dtype | None = None,
    on_step: Callable[[Mapping[str, Any]], None] = lambda record: None,
    checkpoint: Checkpoint | None = None,
    checkpoint_every_steps: int = 100,
) -> tuple[Qwen3ForCausalLM, list[Mapping[str, Any]]]:
    """Train the embedded model. Deterministic for one recipe, thread count and processor.

    The run can be stopped anywhere: called again with the same arguments it goes on from its checkpoint and ends
    with the same weights.

    Args:
        recipe: Sizes, data mixture and optimiser settings.
        tokenizer: From ``train_tokenizer``.
        autocast: Compute dtype of matrix products; weights and losses stay float32.
        on_step: Called after each step with its record (phase, step, tokens, kind, loss, seconds).
        checkpoint: Where the run's state is kept; None for nowhere.
        checkpoint_every_steps: Steps of a phase between two checkpoints.

    Returns:
        The model, and the records of every tenth step.
    """
    position = None if checkpoint is None else checkpoint.position()
    log = [] if position is None else list(position.log)
    model = make_model(recipe, tokenizer).to(_device())
    for number, phase in enumerate(phases(recipe)):
        if position is not None and phase.name != position.phase:
            continue
        # Every phase starts from weights of the precision that is shipped.
        if number > 0:
            model.to(torch.bfloat16).float()
        teacher = None if phase.temperature is None else copy.deepcopy(model).eval()
        run = _PhaseRun(recipe, tokenizer, phase, TrainingState(model, teacher, _optimizers(model, recipe)), autocast)
        if position is not None:
            checkpoint.restore(run.state)
            run.go_to(position)
            position = None
        while run.tokens < recipe.phase_tokens[phase.name]:
            record = run.advance()
            if run.step % STEPS_PER_LOG_RECORD == 0:
                log.append(record)
            on_step(record)
            if checkpoint is not None and run.step % checkpoint_every_steps == 0:
                checkpoint.save(run.position(log), run.state)
    return model.eval(), log


class _PhaseRun:
    """One phase under way."""

    def __init__(
        self,
        recipe: Recipe,
        tokenizer: PreTrainedTokenizerFast,
        phase: Phase,
        state: TrainingState,
        autocast: torch.dtype | None,
    ) -> None:
        self.state, self.step, self.tokens = state, 0, 0
        self._recipe, self._phase, self._autocast, self._started = recipe, phase, autocast, time.monotonic()
        names = () if phase.name == "first" else (phase.name,)
        self._kinds = random_stream(recipe.seed, "embedded", "kinds", *names)
        prose = prose_batches(recipe, tokenizer, random_stream(recipe.seed, "embedded", "prose", *names))
        self._batches = {"prose": prose, "instruction": phase.instructions(recipe, tokenizer, state.teacher)}
        # What the recipe calls the learning rate of each optimiser.
        self._rates = [optimizer.param_groups[0]["lr"] for optimizer in state.optimizers]
        state.model.train()

    def advance(self) -> dict[str, Any]:
        """Take one optimiser step and return its record."""
        recipe, model = self._recipe, self.state.model
        kind = "prose" if self._kinds.random() < recipe.prose_share else "instruction"
        inputs, labels = (tensor.to(_device()) for tensor in next(self._batches[kind]))
        with torch.autocast(_device(), dtype=self._autocast, enabled=self._autocast is not None):
            loss = _loss(model, inputs, labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        progress = self.tokens / recipe.phase_tokens[self._phase.name]
        factor = self._phase.rate_factor * learning_rate_factor(progress, recipe.warmup_share, recipe.decay_share)
        for optimizer, rate in zip(self.state.optimizers, self._rates, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = rate * factor
            optimizer.step()
            optimizer.zero_grad()
        self.tokens += inputs.numel()
        self.step += 1
        return {
            "phase": self._phase.name,
            "step": self.step,
            "tokens": self.tokens,
            "kind": kind,
            "loss": loss.item(),
            "seconds": self._seconds(),
        }

    def _seconds(self) -> float:
        return time.monotonic() - self._started

    def position(self, log: list[Mapping[str, Any]]) -> Position:
        """How far the phase is, for ``go_to``."""
        streams = {name: stream.state for name, stream in self._batches.items()} | {"kinds": random_state(self._kinds)}
        return Position(self._phase.name, self.step, self.tokens, self._seconds(), streams, log)

    def go_to(self, position: Position) -> None:
        """Go on behind a position; weights and optimisers are those of it already."""
        self.step, self.tokens, self._started = position.step, position.tokens, time.monotonic() - position.seconds
        self._kinds.bit_generator.state = position.streams["kinds"]
        for name, stream in self._batches.items():
            stream.state = position.streams[name]


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
