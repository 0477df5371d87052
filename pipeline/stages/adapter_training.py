"""What the stages that train adapters share: model, LoRA, terms of the loss, loop, log, tracking, adapter."""

import contextlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.artifacts.atomic import atomic_directory
from pipeline.artifacts.model_report import model_revision
from pipeline.command import ends_between_steps
from pipeline.config.conditions import training_settings
from pipeline.config.params import Params
from pipeline.config.training import target_shares
from pipeline.core.prompts.structured import Prompt
from pipeline.core.random_streams import random_stream, stream_seed
from pipeline.core.training.examples import Draw, Example, training_steps
from pipeline.dag.execution import StageRun
from pipeline.errors import ConfigError
from pipeline.record.progress import progress_bar
from pipeline.record.tracking import Run

if TYPE_CHECKING:
    import numpy as np
    from peft import PeftModel
    from transformers import PreTrainedTokenizerBase

    from pipeline.core.training.objectives import Objective
    from pipeline.engines.training.distributed import ProcessGroup
    from pipeline.engines.training.fit import Term

Encode = Callable[[str], list[int]]
"""Token ids of a request."""


@dataclass(frozen=True)
class ExampleRequest:
    """What one example is made from; each sequence that it draws has a random stream of its own."""

    prompt: Prompt
    prompt_ids: list[int]
    streams: list["np.random.Generator"]


@dataclass(frozen=True)
class Target:
    """What an adapter is trained towards; ``name`` is "soft" or "hard"."""

    name: str
    objective: "Objective"
    make_examples: Callable[[list[ExampleRequest]], list[Example]]
    epochs: int
    """Passes over the training prompts, where nothing else is trained on."""
    examples_per_prompt: int
    """In an epoch."""
    sequences_per_example: int = 1
    """Streams of a request."""


def train_adapter(
    run: StageRun,
    model: str,
    method: str,
    model_report: Path,
    prompts: Sequence[Prompt],
    open_targets: Callable[["PreTrainedTokenizerBase"], list[Target]],
    output: Path,
    open_anchors: Callable[["PreTrainedTokenizerBase", Encode, int], "Term"] | None = None,
) -> None:
    """Train one adapter towards one or two targets and write it with its log and provenance, in every process of a
    distributed run. ``open_anchors`` makes a further term of the model's tokenizer, encoder and the number of steps.
    Raises ConfigError for other processes than the section ``distributed`` says or too few passes, BusyError where
    another run trains the same adapter."""
    from pipeline.engines.loading.chat import request_encoder
    from pipeline.engines.loading.model import load_tokenizer, stop_ids
    from pipeline.engines.training import fit
    from pipeline.engines.training.distributed import process_group
    from pipeline.stages.training_distance import distance_while_training

    config, model_config = run.params, run.params.models[model]
    settings, distributed = training_settings(config, method), config.distributed
    passes = settings.global_batch_size // settings.micro_batch_size
    if passes < distributed.num_processes:
        raise ConfigError(
            f"train.micro_batch_size {settings.micro_batch_size} makes {passes} passes of a step of "
            f"{settings.global_batch_size} examples, too few for distributed.num_processes "
            f"{distributed.num_processes}; at most {settings.global_batch_size // distributed.num_processes} is allowed"
        )
    with process_group(distributed.strategy, distributed.num_processes) as group, contextlib.ExitStack() as stack:
        tracking = Run()
        if group.rank == 0:
            stack.enter_context(run.scratch())
            tracking = stack.enter_context(run.tracked())
        tokenizer = load_tokenizer(model_config, model_revision(model_report))
        targets, encode = open_targets(tokenizer), request_encoder(tokenizer, model_config)
        stream = (model, targets[0].name)
        adapted = _model_with_adapter(config, model, method, model_report, stream, group)
        num_steps, terms = _terms(config, model, method, prompts, targets, encode)
        if open_anchors is not None:
            terms.append(open_anchors(tokenizer, encode, num_steps))
        progress = stack.enter_context(
            progress_bar(total=num_steps, desc=run.title, unit="step", disable=group.rank != 0)
        )

        def on_step(entry: dict) -> None:
            progress.update()
            progress.set_postfix(loss=f"{entry['loss']:.4f}")
            measured = run.record.usage.measured()
            memory = measured["peak_gpu_memory_bytes"] or measured["peak_memory_bytes"]
            logged = entry | {"tokens_per_second": entry["tokens"] / entry["seconds"], "memory_gb": memory / 1e9}
            tracking.log({f"train/{key}": value for key, value in logged.items() if key != "step"}, step=entry["step"])

        stops = stop_ids(adapted, tokenizer, model_config.terminator)
        # Sampling from layers that are shared out would take all processes, token by token.
        asked = [] if group.shards else prompts
        log = fit.fit(
            adapted,
            terms,
            num_steps,
            settings,
            seed=config.train_seed,
            stream=stream,
            pad_id=tokenizer.pad_token_id or 0,
            checkpoint=run.unfinished / "state.safetensors",
            on_step=on_step,
            is_ending=stack.enter_context(ends_between_steps()),
            group=group,
            measure=distance_while_training(adapted, tokenizer, stops, asked, encode, num_steps, config.train_seed),
        )
        if group.rank == 0:
            with atomic_directory(output) as directory:
                fit.save_adapter(adapted, directory)
                (directory / "train_log.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in log))
                results = {"steps": len(log), "final_loss": log[-1]["loss"]}
                run.write_record(directory, **results, distributed=asdict(distributed))


def _model_with_adapter(
    config: Params, model: str, method: str, report: Path, stream: Sequence[str], group: "ProcessGroup"
) -> "PeftModel":
    """The base model with fresh LoRA weights, the same ones in every process, on its device."""
    import torch

    from pipeline.engines.loading.model import add_lora, load_model

    settings, model_config = training_settings(config, method), config.models[model]
    # Layers that are shared out go to the device one by one.
    base = load_model(model_config, model_revision(report), "cpu" if group.shards else str(group.device))
    torch.manual_seed(stream_seed(config.train_seed, "lora", *stream))
    adapted = add_lora(
        base,
        model_config,
        rank=settings.lora_rank,
        alpha=settings.lora_alpha,
        dropout=settings.lora_dropout,
        dtype=settings.adapter_dtype,
    )
    return group.distribute(adapted)


def _terms(
    config: Params, model: str, method: str, prompts: Sequence[Prompt], targets: Sequence[Target], encode: Encode
) -> tuple[int, list["Term"]]:
    """The number of steps, and a term of their loss for each target. Streams are named by the target, so methods with
    one in common see the same draws. Two share a step's examples, and the number of steps is between those of each
    alone. Raises ConfigError where a target would have no examples in a step."""
    from pipeline.engines.training.fit import Term

    shares = target_shares(config.methods[method])
    batch_size = training_settings(config, method).global_batch_size
    encoded, groups = [encode(prompt.text) for prompt in prompts], [prompt.group for prompt in prompts]

    def steps_of(target: Target, size: int, epochs: int) -> list[list[Draw]]:
        names, order = (model, target.name), config.train.order
        return training_steps(groups, epochs, target.examples_per_prompt, size, config.train_seed, *names, order=order)

    num_steps = round(sum(shares[each.name] * len(steps_of(each, batch_size, each.epochs)) for each in targets))
    first = batch_size if len(targets) == 1 else round(shares[targets[0].name] * batch_size)
    sizes = [first, batch_size - first][: len(targets)]
    if 0 in sizes:
        raise ConfigError(
            f"train.global_batch_size {batch_size} cannot hold examples of both targets in shares of "
            f"{' and '.join(f'{shares[target.name]:g}' for target in targets)}"
        )

    def term(target: Target, size: int) -> Term:
        per_epoch = math.ceil(len(groups) * target.examples_per_prompt / size)
        steps, packed = steps_of(target, size, math.ceil(num_steps / per_epoch)), target.sequences_per_example

        def request(draw: Draw) -> ExampleRequest:
            prompt = prompts[draw.prompt_index]
            # Sequences are numbered over the epoch, so packing them does not change which are drawn.
            numbers = range(draw.repetition * packed, (draw.repetition + 1) * packed)
            stream = (config.train_seed, "target", model, target.name, prompt.prompt_id, draw.epoch)
            streams = [random_stream(*stream, number) for number in numbers]
            return ExampleRequest(prompt, encoded[draw.prompt_index], streams)

        def make_examples(step: int) -> list[Example]:
            return target.make_examples([request(draw) for draw in steps[step]])

        return Term(target.name, make_examples, target.objective, weight=shares[target.name])

    return num_steps, [term(target, size) for target, size in zip(targets, sizes, strict=True)]
