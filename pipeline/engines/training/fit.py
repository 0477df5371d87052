"""The training loop, shared by all methods and by any number of processes, with exact resume."""

import contextlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

import torch
from peft import PeftModel
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from transformers import get_cosine_schedule_with_warmup

from pipeline.artifacts.atomic import atomic_path
from pipeline.artifacts.storage import write_json
from pipeline.command import Terminated
from pipeline.config.training import TrainConfig
from pipeline.core.random_streams import stream_seed
from pipeline.core.training.batches import Batch, PassCost, collate, plan_passes, share_passes
from pipeline.core.training.examples import Example
from pipeline.core.training.objectives import Objective, backward_in_chunks
from pipeline.engines.loading.model import PositionLogits, position_logits
from pipeline.engines.scoring.tree_attention import supports_tree_attention, tree_attention_mask
from pipeline.engines.training.distributed import ProcessGroup, single_process
from pipeline.errors import ConfigError, first_line, is_out_of_memory

# Logits that exist at a time: 32 Mi, 128 MiB in float32, are 220 positions of a vocabulary of 151,936.
LOGITS_PER_CHUNK = 1 << 25
# An operation of attention under a mask takes about twice as long as one of a matrix product: measured on CPUs.
ATTENTION_WEIGHT = 2.0


@dataclass(frozen=True)
class Term:
    """One part of the loss of every step."""

    name: str  # its name in the log and in its dropout streams
    make_examples: Callable[[int], list[Example]]  # its examples in a step by the step's number (from 0)
    objective: Objective
    weight: float = 1.0
    compares: bool = False
    """Whether ``objective`` takes the base checkpoint's logits: those of the same weights without the adapter."""


def pass_cost(model: torch.nn.Module) -> PassCost:
    """Operations of a causal language model's layers; those of attention, which are slower, count ATTENTION_WEIGHT."""
    config = model.config.get_text_config()
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    pairs = 4 * config.num_hidden_layers * config.num_attention_heads * width
    return PassCost(2.0 * model.num_parameters(exclude_embeddings=True), ATTENTION_WEIGHT * pairs)


def save_checkpoint(
    path: Path, step: int, parameters: Mapping[str, torch.Tensor], optimizer: torch.optim.Optimizer, log: list
) -> None:
    """Write weights, optimiser state and log after ``step`` steps, replacing the file atomically."""
    tensors = {f"parameter/{name}": value.detach() for name, value in parameters.items()}
    for name, value in parameters.items():
        tensors |= {f"optimizer/{name}/{key}": tensor for key, tensor in optimizer.state[value].items()}
    with atomic_path(path) as temporary:
        contiguous = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
        save_file(contiguous, temporary, {"step": str(step), "log": json.dumps(log)})


def restore_checkpoint(
    path: Path, parameters: Mapping[str, torch.Tensor], optimizer: torch.optim.Optimizer
) -> tuple[int, list]:
    """The step reached and the log so far. A file that is not whole is ignored; an unreadable one is an OSError."""
    if not path.exists():
        return 0, []
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata()
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        print(f"note: {path} is not whole ({first_line(error)}); training starts over")
        return 0, []
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[f"parameter/{name}"])
            optimizer.state[parameter] = {
                key: tensors[f"optimizer/{name}/{key}"].to(parameter.device)
                for key in ("step", "exp_avg", "exp_avg_sq")
            }
    return int(metadata["step"]), json.loads(metadata["log"])


def fit(
    model: PeftModel,
    terms: Sequence[Term],
    num_steps: int,
    settings: TrainConfig,
    *,
    seed: int,
    stream: Sequence[str],
    pad_id: int,
    checkpoint: Path,
    on_step: Callable[[dict], None] = lambda record: None,
    measure: Callable[[int], dict] = lambda steps: {},
    is_ending: Callable[[], bool] = lambda: False,
    group: ProcessGroup | None = None,
) -> list[dict]:
    """Train the adapter for ``num_steps`` optimiser steps; the processes of ``group`` call this with equal arguments.

    Each makes all examples of a step and runs its share of the forward passes. Dropout masks have streams by ``seed``,
    ``stream`` and step: after a stop, a run ends with the same weights, bit for bit on one CPU. Where ``is_ending`` of
    any process is true after a step, all leave a checkpoint and raise Terminated.

    Returns one record per step, also given to ``on_step``: step, loss (nats), learning_rate, grad_norm, tokens,
    sequences, seconds (of this process), of each of several terms loss/NAME and weight/NAME, and what ``measure`` says
    of the model after so many steps.

    Raises ConfigError for an attention that does not train here, and where an example is longer than ``max_length``,
    the loss or its gradient is not finite, a pass does not fit into the GPU's memory, or the processes do not see the
    same checkpoint.
    """
    group = group or single_process()
    parameters = {name: value for name, value in model.named_parameters() if value.requires_grad}
    optimizer = torch.optim.AdamW(
        parameters.values(), lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True
    )
    schedule = get_cosine_schedule_with_warmup(optimizer, math.ceil(settings.warmup_ratio * num_steps), num_steps)
    first_step, log = restore_checkpoint(checkpoint, parameters, optimizer)
    for record in log:
        on_step(record)
    group.check_same_step(first_step)
    logits_at = position_logits(model)
    attention = logits_at.model.config.get_text_config()._attn_implementation
    if attention == "flex_attention" and model.device.type == "cpu":
        raise ConfigError("models.*.attention: flex_attention trains on GPUs alone; set sdpa or eager")
    trees, cost = supports_tree_attention(model), pass_cost(logits_at.model)
    several = len(terms) > 1
    model.train()
    for step in range(first_step, num_steps):
        started = time.monotonic()
        rate = settings.learning_rate * schedule.lr_lambdas[0](step)
        for parameter_group in optimizer.param_groups:
            parameter_group["lr"] = rate
        # On the device and in double precision: one transfer per step, and no rounding of the sum.
        totals = torch.zeros(len(terms) + 2, dtype=torch.float64, device=next(iter(parameters.values())).device)
        sequences = 0
        for place, term in enumerate(terms):
            examples = term.make_examples(step)
            if (longest := max(example.longest for example in examples)) > settings.max_length:
                raise ConfigError(
                    f"train.max_length: {settings.max_length} is too small for an example of {longest} tokens"
                )
            passes = plan_passes(examples, settings.micro_batch_size, settings.tokens_per_pass, trees, cost)
            size = sum(example.size for example in examples) / term.weight
            sequences += sum(example.sequences for example in examples)
            for first_row, batch_tokens, batch in _batches_of_rank(passes, size, pad_id, group):
                named = (term.name,) if several else ()
                torch.manual_seed(stream_seed(seed, "dropout", *stream, *named, step, first_row))
                with _memory_explained(batch_tokens):
                    batch = batch.to(totals.device)
                    base = model if term.compares else None
                    loss = backward_pass(logits_at, batch, term.objective, settings.temperature, LOGITS_PER_CHUNK, base)
                totals[place] += loss
                totals[-2] += batch_tokens
        totals[-1] = is_ending()
        *losses, tokens, ending = group.sum(totals).tolist()
        loss = sum(losses)
        if not math.isfinite(loss):
            raise ConfigError(f"the training loss is {loss} at step {step + 1}; lower train.learning_rate")
        group.sum_gradients(parameters.values())
        limit = settings.max_grad_norm if settings.max_grad_norm is not None else math.inf
        norm = torch.nn.utils.clip_grad_norm_(parameters.values(), limit).item()
        if not math.isfinite(norm):
            # Before a weight or a checkpoint is lost to it; behind the last step there is no loss to show it.
            raise ConfigError(f"the gradient's norm is {norm} at step {step + 1}; lower train.learning_rate")
        optimizer.step()
        optimizer.zero_grad()
        record = {
            "step": step + 1,
            "loss": loss,
            "learning_rate": rate,
            "grad_norm": norm,
            "tokens": int(tokens),
            "sequences": sequences,
            "seconds": time.monotonic() - started,
        }
        for term, weighted in zip(terms, losses, strict=True) if several else ():
            record |= {f"loss/{term.name}": weighted / term.weight, f"weight/{term.name}": term.weight}
        record |= measure(step + 1)
        log.append(record)
        on_step(record)
        if step + 1 < num_steps and (ending or (step + 1) % settings.checkpoint_every_steps == 0):
            if group.rank == 0:
                save_checkpoint(checkpoint, step + 1, parameters, optimizer, log)
            if ending:
                raise Terminated
    model.eval()
    return log


@contextlib.contextmanager
def _memory_explained(tokens: int) -> Iterator[None]:
    """Say what to change where a pass does not fit into the GPU's memory. Raises ConfigError."""
    try:
        yield
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        raise ConfigError(
            f"a forward and backward pass of {tokens} tokens does not fit into the GPU's memory beside the model "
            f"({first_line(error)}); lower train.tokens_per_pass (at least train.max_length), which changes no result, "
            "or share the model out with distributed=fsdp_4"
        ) from None


def _batches_of_rank(
    passes: list[list[Example]], step_size: float, pad_id: int, group: ProcessGroup
) -> Iterator[tuple[int, int, Batch]]:
    """This process's passes of a step: rows before each, tokens, and the batch; with shards as many as any other's."""
    first_rows = [0, *accumulate(map(len, passes))]
    sizes = [len(rows) * max(row.num_inputs for row in rows) for rows in passes]
    shares = share_passes(sizes, group.size)
    for index in shares[group.rank]:
        tokens = sum(row.num_inputs for row in passes[index])
        yield first_rows[index], tokens, collate(passes[index], pad_id, step_size)
    if group.shards and len(shares[group.rank]) < max(map(len, shares)):
        smallest = passes[min(range(len(passes)), key=sizes.__getitem__)]
        batch = collate(smallest[:1], pad_id, step_size)
        yield 0, 0, replace(batch, targets=replace(batch.targets, weights=torch.zeros_like(batch.targets.weights)))


def backward_pass(
    logits_at: PositionLogits,
    batch: Batch,
    objective: Objective,
    temperature: float,
    logits_per_chunk: int,
    base: PeftModel | None = None,
) -> torch.Tensor:
    """Add the gradients of one forward pass to the model's trainable parameters; return its share of the loss in nats.

    ``temperature`` is tau of Eq. 2; of logits, ``logits_per_chunk`` numbers exist at a time. ``base`` is the model, for
    an objective that compares with its logits without the adapter.
    """
    mask = batch.attention_mask
    if batch.allowed is not None:
        mask = tree_attention_mask(logits_at.model, batch.allowed, batch.position_ids)
    places = (batch.input_ids, mask, batch.rows, batch.columns, batch.position_ids)
    reference = None
    if base is not None:
        with torch.no_grad(), base.disable_adapter():
            base_states = logits_at.states(*places)

        def reference(part: slice) -> torch.Tensor:
            with torch.no_grad(), base.disable_adapter():
                return logits_at.head(base_states[part])

    states = logits_at.states(*places)
    positions = max(logits_per_chunk // logits_at.vocabulary, 1)
    return backward_in_chunks(logits_at.head, states, batch.targets, objective, temperature, positions, reference)


def save_adapter(model: PeftModel, directory: Path) -> None:
    """Write ``adapter_model.safetensors`` and ``adapter_config.json``, the same bytes for the same adapter."""
    model.save_pretrained(directory)
    # PEFT keeps the module names in a set, whose order changes from process to process.
    path = directory / "adapter_config.json"
    config = json.loads(path.read_text())
    write_json(path, {**config, "target_modules": sorted(config["target_modules"])})
    # Its model card has unfilled placeholders; the provenance says more.
    (directory / "README.md").unlink(missing_ok=True)
