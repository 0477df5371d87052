"""Seconds of one optimiser step by one process and by two, and what each process keeps of the model.

Every process has one thread of the CPU, so two of them have twice the arithmetic of one. A step is 32 prompts
with one path each in passes of 8 rows, as in the paper; the data and the result are the same in all rows.

- ``single``: one process, four passes in turn; the baseline.
- ``ddp``: two processes, two passes each, one sum of the adapter's gradients.
- ``fsdp``: the same, and each keeps half of every layer, which is gathered layer by layer, twice per pass.

``parameters_mb`` is what a process keeps of the base model between passes, ``adapter_mb`` of the adapter. Models:
the embedded one, and ``deep``, 12 random layers of width 256 behind a vocabulary of 2,048.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from peft import PeftModel
from transformers import Qwen3Config, Qwen3ForCausalLM

from benchmarks.workload import MODEL, make_model, make_workload
from pipeline.core.training.objectives import soft_target_loss
from pipeline.engines.loading.model import add_lora
from pipeline.engines.training.distributed import process_group
from pipeline.engines.training.fit import Checkpoint, FitSettings, Term, fit

PROCESSES = {"single": 1, "ddp": 2, "fsdp": 2}
MODELS = ("embedded", "deep")
PROMPTS, ROWS_PER_PASS = 32, 8


def benchmarked_model(name: str) -> PeftModel:
    """ "embedded" or "deep", with fresh LoRA weights."""
    if name == "embedded":
        return make_model(name)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=2048,
        hidden_size=256,
        intermediate_size=768,
        num_hidden_layers=12,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        tie_word_embeddings=True,
    )
    return add_lora(Qwen3ForCausalLM(config).eval(), MODEL, rank=16, alpha=32, dropout=0.0)


def kept_megabytes(model: PeftModel, trainable: bool) -> float:
    """MB that this process keeps of the frozen or of the trainable parameters."""
    chosen = (value for value in model.parameters() if value.requires_grad == trainable)
    local = (value.to_local() if hasattr(value, "to_local") else value for value in chosen)
    return sum(value.numel() * value.element_size() for value in local) / 1e6


def measure(strategy: str, model_name: str, steps: int, output: Path) -> None:
    """Train some steps as one of the processes; the first writes its figures to ``output``."""
    torch.set_num_threads(1)
    workload = make_workload(PROMPTS, max_bins=101)
    settings = FitSettings(
        learning_rate=1e-4,
        weight_decay=0.01,
        warmup_ratio=0.0,
        max_grad_norm=None,
        micro_batch_size=ROWS_PER_PASS,
        tokens_per_pass=None,
        max_length=512,
        temperature=1.0,
        checkpoint_every_steps=steps + 2,
    )
    with process_group(strategy, PROCESSES[strategy]) as group:
        model = group.distribute(lambda: benchmarked_model(model_name))
        # The first step pays for what is allocated once.
        log = fit(
            model,
            [Term("targets", workload.soft, soft_target_loss)],
            steps + 1,
            settings,
            seed=0,
            stream=("benchmark",),
            pad_id=0,
            checkpoint=Checkpoint(output.parent / "state.safetensors"),
            group=group,
        )
        if group.is_main:
            figures = {
                "seconds": float(np.median([record["seconds"] for record in log[1:]])),
                "loss": log[-1]["loss"],
                "parameters_mb": kept_megabytes(model, False),
                "adapter_mb": kept_megabytes(model, True),
            }
            output.write_text(json.dumps(figures))


def run(models: Iterable[str] = MODELS, steps: int = 10) -> list[dict]:
    """Measure every strategy.

    Args:
        models: "embedded" and "deep".
        steps: Steps of which the median counts.

    Returns:
        One dictionary per strategy: case, implementation, seconds, ratio (the single
        process's seconds over its own), parameters_mb, adapter_mb, loss.
    """
    results = []
    for model in models:
        single = None
        for strategy, processes in PROCESSES.items():
            with tempfile.TemporaryDirectory() as directory:
                output = Path(directory) / "figures.json"
                launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
                worker = ["-m", "benchmarks.distributed", strategy, model, str(steps), str(output)]
                subprocess.run(
                    [sys.executable, *(launcher if processes > 1 else []), *worker],
                    check=True,
                    env={**os.environ, "OMP_NUM_THREADS": "1"},
                    cwd=Path(__file__).parents[1],
                )
                figures = json.loads(output.read_text())
            single = single or figures["seconds"]
            row = {"case": model, "implementation": strategy}
            results.append(row | figures | {"ratio": single / figures["seconds"]})
    return results


if __name__ == "__main__":
    # One of the processes that ``run`` has started.
    measure(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
