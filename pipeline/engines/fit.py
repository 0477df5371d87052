"""The training loop, shared by both methods, with exact resume."""

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from peft import PeftModel, get_peft_model_state_dict
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from transformers import get_cosine_schedule_with_warmup

from pipeline.artifacts import atomic_path, write_json
from pipeline.core.objectives import Targets
from pipeline.core.random_streams import stream_seed
from pipeline.core.training_data import Example, collate
from pipeline.engines.model import position_logits
from pipeline.errors import ConfigError

Objective = Callable[[torch.Tensor, Targets, float], torch.Tensor]


@dataclass(frozen=True)
class FitSettings:
    """Optimisation settings; see ``pipeline.config.TrainConfig`` for each."""

    learning_rate: float
    weight_decay: float
    warmup_ratio: float
    max_grad_norm: float | None
    micro_batch_size: int
    max_length: int
    temperature: float
    checkpoint_every_steps: int


class Checkpoint:
    """Trainable weights, optimiser state and log of a run in one safetensors file.

    ``identity`` names what the run depends on; a file of another identity is ignored.
    """

    def __init__(self, path: Path, identity: str):
        self.path, self.identity = path, identity

    def save(self, step: int, parameters: dict[str, torch.Tensor], optimizer: torch.optim.Optimizer, log: list) -> None:
        """Write the state after ``step`` steps, replacing the file atomically."""
        tensors = {f"parameter/{name}": value.detach() for name, value in parameters.items()}
        names = {id(value): name for name, value in parameters.items()}
        for value, state in optimizer.state.items():
            for key, tensor in state.items():
                tensors[f"optimizer/{names[id(value)]}/{key}"] = tensor
        metadata = {"identity": self.identity, "step": str(step), "log": json.dumps(log)}
        with atomic_path(self.path) as temporary:
            save_file({name: tensor.cpu().contiguous() for name, tensor in tensors.items()}, temporary, metadata)

    def restore(self, parameters: dict[str, torch.Tensor], optimizer: torch.optim.Optimizer) -> tuple[int, list]:
        """Load the state if there is one of this identity; return the step reached and the log so far."""
        if not self.path.exists():
            return 0, []
        try:
            with safe_open(self.path, "pt") as file:
                metadata = file.metadata()
                if metadata["identity"] != self.identity:
                    return 0, []
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError):
            return 0, []
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(tensors[f"parameter/{name}"])
                optimizer.state[parameter] = {
                    key: tensors[f"optimizer/{name}/{key}"].to("cpu" if key == "step" else parameter.device)
                    for key in ("step", "exp_avg", "exp_avg_sq")
                }
        return int(metadata["step"]), json.loads(metadata["log"])

    def discard(self) -> None:
        """Remove the file."""
        self.path.unlink(missing_ok=True)


def fit(
    model: PeftModel,
    make_examples: Callable[[int], list[Example]],
    num_steps: int,
    objective: Objective,
    settings: FitSettings,
    *,
    seed: int,
    stream: Sequence[str],
    pad_id: int,
    checkpoint: Checkpoint,
    on_step: Callable[[dict], None] = lambda record: None,
) -> list[dict]:
    """Train the adapter for ``num_steps`` optimiser steps.

    The run can be stopped anywhere: called again with the same arguments it continues
    from its checkpoint and ends with the same weights, bit for bit on one CPU, because
    examples and dropout masks depend on the step number alone.

    Args:
        model: PEFT model whose trainable parameters are optimised.
        make_examples: Examples of a step by its number (from 0); must be a pure function of it.
        num_steps: Number of optimiser steps.
        objective: ``soft_target_loss`` or ``hard_target_loss``.
        settings: Optimisation settings.
        seed: Root seed of the dropout streams, named by ``stream`` and the step.
        stream: Names of this run, e.g. ("embedded", "soft").
        pad_id: Any token id, for padding.
        checkpoint: Where the run's state is kept.
        on_step: Called with the record of each finished step.

    Returns:
        One record per step: step, loss (nats), learning_rate, grad_norm, tokens.

    Raises:
        ConfigError: An example is longer than ``max_length``, or the loss is not finite.
    """
    parameters = {name: value for name, value in model.named_parameters() if value.requires_grad}
    optimizer = torch.optim.AdamW(parameters.values(), lr=settings.learning_rate, weight_decay=settings.weight_decay)
    schedule = get_cosine_schedule_with_warmup(optimizer, math.ceil(settings.warmup_ratio * num_steps), num_steps)
    first_step, log = checkpoint.restore(parameters, optimizer)
    for record in log:
        on_step(record)
    device = next(iter(parameters.values())).device
    logits_at = position_logits(model)
    model.train()
    for step in range(first_step, num_steps):
        examples = make_examples(step)
        _check_lengths(examples, settings.max_length)
        rate = settings.learning_rate * schedule.lr_lambdas[0](step)
        for group in optimizer.param_groups:
            group["lr"] = rate
        started, loss, tokens = time.monotonic(), 0.0, 0
        for start in range(0, len(examples), settings.micro_batch_size):
            batch = collate(examples[start : start + settings.micro_batch_size], pad_id, len(examples))
            torch.manual_seed(stream_seed(seed, "dropout", *stream, step, start))
            logits = logits_at(
                batch.input_ids.to(device),
                batch.attention_mask.to(device),
                batch.rows.to(device),
                batch.columns.to(device),
            )
            micro_loss = objective(logits, batch.targets.to(device), settings.temperature)
            micro_loss.backward()
            loss += micro_loss.item()
            tokens += int(batch.attention_mask.sum())
        if not math.isfinite(loss):
            raise ConfigError(f"the training loss is {loss} at step {step + 1}; lower train.learning_rate")
        limit = settings.max_grad_norm if settings.max_grad_norm is not None else math.inf
        norm = torch.nn.utils.clip_grad_norm_(parameters.values(), limit)
        optimizer.step()
        optimizer.zero_grad()
        record = {
            "step": step + 1, "loss": loss, "learning_rate": rate, "grad_norm": norm.item(), "tokens": tokens,
            "seconds": time.monotonic() - started,
        }  # fmt: skip
        log.append(record)
        on_step(record)
        if (step + 1) % settings.checkpoint_every_steps == 0 and step + 1 < num_steps:
            checkpoint.save(step + 1, parameters, optimizer, log)
    model.eval()
    return log


def _check_lengths(examples: Sequence[Example], max_length: int) -> None:
    for example in examples:
        length = len(example.prompt_ids) + len(example.completion)
        if length > max_length:
            raise ConfigError(f"train.max_length: {max_length} is too small for an example of {length} tokens")


def save_adapter(model: PeftModel, directory: Path) -> None:
    """Write ``adapter_model.safetensors`` and ``adapter_config.json``, the same bytes for the same adapter."""
    model.save_pretrained(directory)
    # PEFT keeps the module names in a set, whose order changes from process to process.
    path = directory / "adapter_config.json"
    config = json.loads(path.read_text())
    config["target_modules"] = sorted(config["target_modules"])
    write_json(path, config)
    # Its model card has unfilled placeholders; the provenance says more.
    (directory / "README.md").unlink(missing_ok=True)


def adapter_state(model: PeftModel) -> dict[str, torch.Tensor]:
    """The adapter's weights under their PEFT names, on the CPU."""
    return {name: value.detach().cpu().contiguous() for name, value in get_peft_model_state_dict(model).items()}
