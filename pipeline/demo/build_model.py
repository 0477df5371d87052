"""Train the embedded model from scratch and write it as a checkpoint directory.

An hour and a half on two CPU cores. The result ships in ``models/embedded``; the DAG reads it there
and never rebuilds it. ``make embedded-model`` runs this. A run that is killed continues behind its last finished
phase, and ends with the same weights, bit for bit on one processor with one number of threads.
"""

import argparse
import hashlib
import json
import shutil
from pathlib import Path

from pipeline.artifacts.atomic import atomic_directory
from pipeline.artifacts.locks import exclusive
from pipeline.artifacts.storage import read_json
from pipeline.command import run_command
from pipeline.config.params import validate


def main(output: Path, checkpoint: Path, recipe: Path | None, autocast: str | None) -> None:
    """Write config, safetensors weights (bfloat16), tokenizer, recipe and training log to ``output``."""
    import torch
    from tqdm import tqdm
    from transformers import GenerationConfig

    from pipeline.demo.embedded.recipe import Recipe, recipe_json, tokenizer_texts
    from pipeline.demo.embedded.tokenizer import train_tokenizer
    from pipeline.demo.embedded.training import train

    chosen = Recipe() if recipe is None else validate(read_json(recipe), Recipe, str(recipe))
    dtype = getattr(torch, autocast) if autocast else None
    with exclusive(checkpoint, "build_model"):
        tokenizer = train_tokenizer(tokenizer_texts(chosen), chosen.vocab_size)
        # What decides the weights, but for the code and the processor.
        identity = "\0".join((recipe_json(chosen), tokenizer.backend_tokenizer.to_str(), str(dtype)))
        state = checkpoint / f"{hashlib.sha256(identity.encode()).hexdigest()}.safetensors"
        progress = tqdm(total=sum(chosen.phase_tokens.values()), unit="token", unit_scale=True, desc="embedded model")

        def on_step(record: dict) -> None:
            progress.update(chosen.tokens_before(record["phase"]) + record["tokens"] - progress.n)
            progress.set_postfix(loss=f"{record['loss']:.3f}")

        model, log = train(chosen, tokenizer, autocast=dtype, on_step=on_step, state=state)
        progress.close()
        # The sampling defaults that chat checkpoints ship with; the pipeline must not pick them up.
        model.generation_config = GenerationConfig(
            do_sample=True,
            temperature=0.6,
            top_k=20,
            top_p=0.95,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
        with atomic_directory(output) as directory:
            model.to("cpu", torch.bfloat16).save_pretrained(directory)
            tokenizer.save_pretrained(directory)
            (directory / "training_log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in log))
            (directory / "recipe.json").write_text(recipe_json(chosen) + "\n")
        shutil.rmtree(checkpoint, ignore_errors=True)


def parse_arguments() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="checkpoint directory to write")
    parser.add_argument("--checkpoint", type=Path, required=True, help="directory for the state of an unfinished run")
    parser.add_argument("--recipe", type=Path, help="JSON file with settings of a recipe; the others are the default's")
    parser.add_argument(
        "--autocast", choices=["bfloat16"], help="dtype of matrix products (fast only on processors that have it)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    run_command(main, parse_arguments())
