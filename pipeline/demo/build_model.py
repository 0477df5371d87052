"""Train the embedded model from scratch and write it as a checkpoint directory: ``make embedded-model``.

An hour and a half on two CPU cores. The result ships in ``models/embedded``; the DAG reads it there and never rebuilds
it. The same weights bit for bit on one processor with one number of threads.
"""

import json
from dataclasses import asdict
from pathlib import Path

from tqdm import tqdm
from transformers import GenerationConfig

from pipeline.artifacts.atomic import atomic_directory
from pipeline.command import CommandParser, run_command
from pipeline.demo.embedded.recipe import Recipe, tokenizer_texts
from pipeline.demo.embedded.tokenizer import train_tokenizer
from pipeline.demo.embedded.training import train


def main(output: Path, recipe: Recipe | None = None) -> None:
    """Write config, safetensors weights (bfloat16), tokenizer, recipe and training log to ``output``."""
    chosen = recipe or Recipe()
    tokenizer = train_tokenizer(tokenizer_texts(chosen), chosen.vocab_size)
    total = sum(chosen.phase_tokens.values())
    with tqdm(total=total, unit="token", unit_scale=True, desc="embedded model") as progress:
        model, log = train(chosen, tokenizer, progress.update)
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
        model.save_pretrained(directory)
        tokenizer.save_pretrained(directory)
        (directory / "training_log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in log))
        (directory / "recipe.json").write_text(json.dumps(asdict(chosen), indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    parser = CommandParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="checkpoint directory to write")
    run_command(main, parser.parse_args(), kept=None)
