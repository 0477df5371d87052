"""What train_soft and train_hard share: model, LoRA, loop, log, tracking, adapter."""

import contextlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from pipeline.artifacts.atomic import atomic_directory
from pipeline.artifacts.model_report import model_revision
from pipeline.config.params import Params
from pipeline.core.prompts.structured import Prompt
from pipeline.core.random_streams import random_stream, stream_seed
from pipeline.core.training.examples import Draw, Example, training_steps
from pipeline.dag.execution import StageRun
from pipeline.errors import ConfigError
from pipeline.record.tracking import Run

if TYPE_CHECKING:
    import numpy as np
    from peft import PeftModel
    from transformers import PreTrainedTokenizerBase

    from pipeline.core.training.objectives import Objective
    from pipeline.engines.training.distributed import ProcessGroup


@dataclass(frozen=True)
class ExampleRequest:
    """What one example is made from.

    Attributes:
        prompt: The prompt.
        prompt_ids: Its encoding.
        streams: A random stream of its own for each sequence to draw.
    """

    prompt: Prompt
    prompt_ids: list[int]
    streams: list["np.random.Generator"]


ExampleMaker = Callable[[list[ExampleRequest]], list[Example]]


@dataclass(frozen=True)
class Training:
    """What is trained, and how the examples of a step are made.

    Attributes:
        method: "soft" or "hard".
        model_name: Name in params.yaml.
        model_report: Written by check_model.
        prompts: The training prompts.
        objective: The loss.
        open_targets: Given the model's tokenizer, returns what makes the examples of a step from its requests.
        sequences_per_example: Streams of a request; an epoch has so many fewer examples than
            ``samples_per_prompt`` of every prompt.
    """

    method: str
    model_name: str
    model_report: Path
    prompts: Sequence[Prompt]
    objective: "Objective"
    open_targets: Callable[["PreTrainedTokenizerBase"], ExampleMaker]
    sequences_per_example: int = 1


def train_adapter(run: StageRun, training: Training, output: Path) -> None:
    """Train one adapter and write it with its log and provenance.

    Every process of a distributed run calls this; the first one writes.

    Raises:
        ConfigError: The processes are not those of the section ``distributed``, or a step has too few passes for them.
        BusyError: Another run trains the same adapter.
    """
    from pipeline.engines.loading.model import load_tokenizer
    from pipeline.engines.training import fit
    from pipeline.engines.training.distributed import process_group

    config = run.params
    _check_passes(config)
    distributed = config.distributed
    with process_group(distributed.strategy, distributed.num_processes) as group, contextlib.ExitStack() as stack:
        tracking = Run()
        if group.is_main:
            stack.enter_context(run.scratch())
            tracking = stack.enter_context(run.tracked())
        tokenizer = load_tokenizer(config.models[training.model_name], model_revision(training.model_report))
        num_steps, make_examples = _examples_of_steps(config, training, tokenizer)
        model = _model_with_adapter(config, training, group)
        progress = stack.enter_context(tqdm(total=num_steps, desc=run.title, unit="step", disable=not group.is_main))

        def on_step(entry: dict) -> None:
            progress.update()
            progress.set_postfix(loss=f"{entry['loss']:.4f}")
            logged = entry | {"tokens_per_second": entry["tokens"] / entry["seconds"]}
            tracking.log({f"train/{key}": value for key, value in logged.items() if key != "step"}, step=entry["step"])

        settings = {item.name: getattr(config.train, item.name) for item in fields(fit.FitSettings)}
        log = fit.fit(
            model,
            make_examples,
            num_steps,
            training.objective,
            fit.FitSettings(**settings),
            seed=config.train_seed,
            stream=(training.model_name, training.method),
            pad_id=tokenizer.pad_token_id or 0,
            checkpoint=fit.Checkpoint(run.unfinished / "state.safetensors"),
            on_step=on_step,
            group=group,
        )
        if group.is_main:
            with atomic_directory(output) as directory:
                fit.save_adapter(model, directory)
                (directory / "train_log.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in log))
                results = {"steps": len(log), "final_loss": log[-1]["loss"]}
                run.write_record(directory, **results, distributed=asdict(distributed))


def _check_passes(config: Params) -> None:
    train, processes = config.train, config.distributed.num_processes
    passes = train.global_batch_size // train.micro_batch_size
    if passes < processes:
        raise ConfigError(
            f"train.micro_batch_size {train.micro_batch_size} makes {passes} passes of a step of "
            f"{train.global_batch_size} examples, too few for distributed.num_processes {processes}; "
            f"at most {train.global_batch_size // processes} is allowed"
        )


def _model_with_adapter(config: Params, training: Training, group: "ProcessGroup") -> "PeftModel":
    """The base model with fresh LoRA weights, the same ones in every process, on its device."""
    import torch

    from pipeline.engines.loading.model import add_lora, load_model

    model_config, settings = config.models[training.model_name], config.train
    # Layers that are shared out go to the device one by one.
    device = "cpu" if group.shards else str(group.device)

    def make_model() -> "PeftModel":
        base = load_model(model_config, model_revision(training.model_report), device)
        torch.manual_seed(stream_seed(config.train_seed, "lora", training.model_name, training.method))
        return add_lora(
            base,
            model_config,
            rank=settings.lora_rank,
            alpha=settings.lora_alpha,
            dropout=settings.lora_dropout,
            dtype=settings.adapter_dtype,
        )

    return group.distribute(make_model)


def _examples_of_steps(
    config: Params, training: Training, tokenizer: "PreTrainedTokenizerBase"
) -> tuple[int, Callable[[int], list[Example]]]:
    """The number of steps, and the examples of a step by its number."""
    from pipeline.engines.loading.conditioned_model import message_encoder

    model_name, method, prompts = training.model_name, training.method, training.prompts
    make_examples, encode = training.open_targets(tokenizer), message_encoder(tokenizer, config.models[model_name])
    encoded = [encode([{"role": "user", "content": prompt.text}], False) for prompt in prompts]
    budget, packed = getattr(config.train, method), training.sequences_per_example
    steps = training_steps(
        [prompt.family for prompt in prompts],
        budget.epochs,
        budget.samples_per_prompt // packed,
        config.train.global_batch_size,
        config.train_seed,
        model_name,
        method,
    )

    def request(draw: Draw) -> ExampleRequest:
        prompt = prompts[draw.prompt_index]
        # Sequences are numbered over the epoch, so packing them does not change which are drawn.
        first = draw.repetition * packed
        streams = [
            random_stream(config.train_seed, "target", model_name, method, prompt.prompt_id, draw.epoch, first + index)
            for index in range(packed)
        ]
        return ExampleRequest(prompt, encoded[draw.prompt_index], streams)

    return len(steps), lambda step: make_examples([request(draw) for draw in steps[step]])
