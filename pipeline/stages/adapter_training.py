"""What train_soft and train_hard share: model, LoRA, loop, log, tracking, adapter."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from pipeline.artifacts import atomic_directory
from pipeline.config import Params
from pipeline.core.prompts import Prompt
from pipeline.core.random_streams import random_stream, stream_seed
from pipeline.core.training_data import Example, training_steps
from pipeline.provenance import StageRecord
from pipeline.stages.check_model import model_revision
from pipeline.tracking import tracked_run

if TYPE_CHECKING:
    import numpy as np

    from pipeline.engines.fit import Objective

ExampleMaker = Callable[[list[int], Prompt, "np.random.Generator"], Example]


def train_adapter(
    config: Params,
    method: str,
    model_name: str,
    model_report: Path,
    prompts: Sequence[Prompt],
    objective: "Objective",
    make_example: ExampleMaker,
    record: StageRecord,
    output: Path,
    checkpoint: Path,
) -> None:
    """Train one adapter and write it with its log and provenance.

    ``make_example`` gets the encoded prompt, the prompt and the draw's own random stream.
    """
    import torch

    from pipeline.engines import chat, fit
    from pipeline.engines.model import add_lora, load_model, load_tokenizer

    model_config, settings = config.model(model_name), config.train
    revision = model_revision(model_report)
    tokenizer = load_tokenizer(model_config, revision)
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
    families = [prompt.family for prompt in prompts]
    steps = training_steps(
        families, budget.epochs, budget.samples_per_prompt, settings.global_batch_size, config.seed, model_name, method
    )

    def examples(step: int) -> list[Example]:
        made = []
        for draw in steps[step]:
            prompt = prompts[draw.prompt_index]
            names = ("target", model_name, method, prompt.prompt_id, draw.epoch, draw.repetition)
            made.append(make_example(encoded[draw.prompt_index], prompt, random_stream(config.seed, *names)))
        return made

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
            model, examples, len(steps), objective,
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
    # How often a run is saved, and what the other method does, do not change the adapter.
    for key in (other, "checkpoint_every_steps"):
        del train[key]
    return {"seed": config.seed, "model": config.model(model_name), "train": train}
