"""What train_soft and train_hard share: model, LoRA, loop, log, tracking, adapter."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from pipeline.artifacts import atomic_directory
from pipeline.config import Params
from pipeline.core.prompts import Prompt
from pipeline.core.random_streams import random_stream, stream_seed
from pipeline.core.training_data import Draw, Example, training_steps
from pipeline.provenance import StageRecord
from pipeline.stages.check_model import model_revision
from pipeline.tracking import tracked_run

if TYPE_CHECKING:
    import numpy as np
    from transformers import PreTrainedTokenizerBase

    from pipeline.core.objectives import Objective


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


def train_adapter(
    config: Params,
    method: str,
    model_name: str,
    model_report: Path,
    prompts: Sequence[Prompt],
    objective: "Objective",
    open_targets: Callable[["PreTrainedTokenizerBase"], ExampleMaker],
    record: StageRecord,
    output: Path,
    checkpoint: Path,
    *,
    sequences_per_example: int = 1,
) -> None:
    """Train one adapter and write it with its log and provenance.

    ``open_targets`` is given the model's tokenizer and returns what makes the examples of a step
    from its requests. A request has ``sequences_per_example`` streams; an epoch has so many
    fewer examples than ``samples_per_prompt`` of every prompt.
    """
    import torch

    from pipeline.engines import chat, fit
    from pipeline.engines.model import add_lora, load_model, load_tokenizer

    model_config, settings = config.model(model_name), config.train
    revision = model_revision(model_report)
    tokenizer = load_tokenizer(model_config, revision)
    make_examples = open_targets(tokenizer)
    torch.manual_seed(stream_seed(config.seed, "lora", model_name, method))
    model = add_lora(
        load_model(model_config, revision), model_config,
        rank=settings.lora_rank, alpha=settings.lora_alpha, dropout=settings.lora_dropout,
    )  # fmt: skip
    encoded = [
        chat.encode_request(tokenizer, p.text, model_config.chat.template_arguments, model_config.chat.answer_prefix)
        for p in prompts
    ]
    budget = getattr(settings, method)
    steps = training_steps(
        [prompt.family for prompt in prompts], budget.epochs, budget.samples_per_prompt // sequences_per_example,
        settings.global_batch_size, config.seed, model_name, method,
    )  # fmt: skip

    def request(draw: Draw) -> ExampleRequest:
        prompt = prompts[draw.prompt_index]
        # Sequences are numbered over the epoch, so packing them does not change which are drawn.
        first = draw.repetition * sequences_per_example
        streams = [
            random_stream(config.seed, "target", model_name, method, prompt.prompt_id, draw.epoch, first + index)
            for index in range(sequences_per_example)
        ]
        return ExampleRequest(prompt, encoded[draw.prompt_index], streams)

    state = fit.Checkpoint(checkpoint / "state.safetensors", record.identity)
    with (
        tracked_run(
            config.tracking, name=f"train_{method} {model_name}", group=config.experiment, job_type=f"train_{method}",
            identity=record.identity, settings=record.parameters,
        ) as run,
        tqdm(total=len(steps), desc=f"train_{method} {model_name}", unit="step") as progress,
    ):  # fmt: skip

        def on_step(entry: dict) -> None:
            progress.update()
            progress.set_postfix(loss=f"{entry['loss']:.4f}")
            run.log({f"train/{key}": value for key, value in entry.items() if key != "step"}, step=entry["step"])

        log = fit.fit(
            model, lambda step: make_examples([request(draw) for draw in steps[step]]), len(steps), objective,
            fit.FitSettings(**{item.name: getattr(settings, item.name) for item in fields(fit.FitSettings)}),
            seed=config.seed, stream=(model_name, method), pad_id=tokenizer.pad_token_id or 0,
            checkpoint=state, on_step=on_step,
        )  # fmt: skip
    with atomic_directory(output) as directory:
        fit.save_adapter(model, directory)
        (directory / "train_log.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in log))
        record.write(directory / "provenance.json", steps=len(log), final_loss=log[-1]["loss"], seed=config.seed)
    state.discard()


def training_parameters(config: Params, model_name: str, method: str) -> dict:
    """The parameters that decide an adapter, for its provenance and identity."""
    train = asdict(config.train)
    other = "hard" if method == "soft" else "soft"
    # How often a run is saved, how its passes are cut to fit memory, and what the other method does, do not
    # change the adapter, up to rounding and dropout masks.
    for key in (other, "checkpoint_every_steps", "tokens_per_pass"):
        del train[key]
    parameters = {"seed": config.seed, "model": config.model(model_name), "train": train}
    if method == "hard" and config.discretize.hard.max_bins is None:
        # No output space is among the inputs then, whose hash would tell.
        parameters["num_decimals"] = config.discretize.hard.num_decimals
    return parameters
