"""Train the embedded model from scratch and write it as a checkpoint directory.

An hour and a half on two CPU cores. The result ships in ``models/embedded``; the DAG reads it there
and never rebuilds it. ``make embedded-model`` runs this stage. A run that is killed continues from its last
checkpoint, and ends with the same weights, bit for bit on one processor with one number of threads.
"""

import argparse
import dataclasses
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.artifacts.atomic import atomic_directory
from pipeline.artifacts.locks import exclusive
from pipeline.artifacts.storage import read_json
from pipeline.command import run_command
from pipeline.errors import ConfigError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from pipeline.demo.embedded.recipe import Recipe


def main(
    output: Path,
    checkpoint: Path,
    checkpoint_every_steps: int,
    recipe: Path | None,
    training_tokens: int | None,
    autocast: str | None,
) -> None:
    """Write config, safetensors weights (bfloat16), tokenizer, recipe and training log to ``output``."""
    import torch
    from tqdm import tqdm

    from pipeline.demo.embedded.checkpoint import Checkpoint, training_identity
    from pipeline.demo.embedded.recipe import Recipe, recipe_json, tokenizer_texts
    from pipeline.demo.embedded.tokenizer import train_tokenizer
    from pipeline.demo.embedded.training import train

    chosen = Recipe() if recipe is None else _read_recipe(recipe)
    if training_tokens is not None:
        chosen = dataclasses.replace(chosen, training_tokens=training_tokens)
    dtype = getattr(torch, autocast) if autocast else None
    with exclusive(checkpoint, "build_model"):
        tokenizer = train_tokenizer(tokenizer_texts(chosen), chosen.vocab_size)
        state = Checkpoint(checkpoint / "state.safetensors", training_identity(chosen, tokenizer, dtype))
        position = state.position()
        done = 0 if position is None else chosen.tokens_before(position.phase) + position.tokens
        progress = tqdm(
            total=sum(chosen.phase_tokens.values()), initial=done, unit="token", unit_scale=True, desc="embedded model"
        )

        def on_step(record: dict) -> None:
            progress.update(chosen.tokens_before(record["phase"]) + record["tokens"] - progress.n)
            progress.set_postfix(loss=f"{record['loss']:.3f}")

        model, log = train(
            chosen,
            tokenizer,
            autocast=dtype,
            on_step=on_step,
            checkpoint=state,
            checkpoint_every_steps=checkpoint_every_steps,
        )
        progress.close()
        with atomic_directory(output) as directory:
            _write_model(model, tokenizer, directory)
            (directory / "training_log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in log))
            (directory / "recipe.json").write_text(recipe_json(chosen) + "\n")
        shutil.rmtree(checkpoint, ignore_errors=True)


def _read_recipe(path: Path) -> "Recipe":
    """A recipe as ``recipe.json`` has it. Raises ConfigError for an unknown key or a value of another type."""
    from pipeline.demo.embedded.recipe import Recipe

    values, allowed = read_json(path), {field.name: field.type for field in dataclasses.fields(Recipe)}
    for key, value in values.items():
        if key not in allowed:
            raise ConfigError(f"{path}: unknown key {key!r}; a recipe has {', '.join(allowed)}")
        if type(value) is not allowed[key] and not (allowed[key] is float and type(value) is int):
            raise ConfigError(f"{path}: {key} is {value!r}, not {allowed[key].__name__}")
    return Recipe(**values)


def _write_model(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast", directory: Path) -> None:
    import torch
    from transformers import GenerationConfig

    # The sampling defaults that chat checkpoints ship with; the pipeline must not pick them up.
    model.generation_config = GenerationConfig(
        do_sample=True,
        temperature=0.6,
        top_k=20,
        top_p=0.95,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model.to("cpu", torch.bfloat16).save_pretrained(directory)
    tokenizer.save_pretrained(directory)


def parse_arguments() -> argparse.Namespace:
    """Command line of the stage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="checkpoint directory to write")
    parser.add_argument("--checkpoint", type=Path, required=True, help="directory for the state of an unfinished run")
    parser.add_argument("--checkpoint-every-steps", type=int, default=100, help="default: %(default)s, two minutes")
    parser.add_argument("--recipe", type=Path, help="JSON file with settings of a recipe; the others are the default's")
    parser.add_argument("--training-tokens", type=int, help="train on fewer tokens than the recipe says")
    parser.add_argument(
        "--autocast", choices=["bfloat16"], help="dtype of matrix products (fast only on processors that have it)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    run_command(main, parse_arguments())
