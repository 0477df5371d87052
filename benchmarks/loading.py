"""Memory of a machine while two processes load one model to train it together.

Random checkpoints of some 400 MB in bfloat16, in three cases:

- ``bfloat16``: loaded as they are stored. The weights are the file's own pages, which processes share.
- ``float32``: converted while they are loaded, 4 bytes each, which are private to a process.
- ``mxfp4``: GPT-OSS's experts, turned into bfloat16 while they are loaded, private as well.

``at once`` loads in both processes at the same time, ``in turn`` (what training does) one after the other. Layers are
shared out (``fsdp``) as soon as a process has the model. ``private_mb`` is the largest sum of both processes'
private memory at one moment, ``after_mb`` that sum at the end, both above what the libraries take; ``mapped_mb`` are
the pages of the file, counted once. ``seconds`` is from the start of the first process to the end of the last.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from peft import PeftModel
from transformers import GptOssConfig, GptOssForCausalLM, PreTrainedModel, Qwen3Config, Qwen3ForCausalLM

from benchmarks.workload import CHECKPOINT, MODEL
from pipeline.config.models import ModelConfig
from pipeline.engines.loading.model import add_lora, load_model
from pipeline.engines.training.distributed import ProcessGroup, process_group
from tests.stand_ins.mxfp4 import quantise_experts

CASES, ORDERS, PROCESSES = ("bfloat16", "float32", "mxfp4"), ("at once", "in turn"), 2
SIZE = {
    "hidden_size": 1024,
    "num_hidden_layers": 12,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "vocab_size": 4096,
}
SMALL = {**SIZE, "hidden_size": 64, "num_hidden_layers": 2}
# Tensors that are freed go back to the system at once, and count no longer.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}
SECONDS_BETWEEN_LOOKS = 0.005


def write_checkpoint(case: str, directory: Path, size: Mapping[str, int]) -> None:
    """Write the random checkpoint of a case."""
    torch.manual_seed(0)
    width = size["hidden_size"]
    if case == "mxfp4":
        config = GptOssConfig(**size, intermediate_size=width, num_local_experts=6, num_experts_per_tok=2)
        model: PreTrainedModel = GptOssForCausalLM(config)
    else:
        model = Qwen3ForCausalLM(Qwen3Config(**size, intermediate_size=4 * width, tie_word_embeddings=True))
    model.to(torch.bfloat16).save_pretrained(directory)
    if case == "mxfp4":
        quantise_experts(directory)
    # A checkpoint must have one; nothing is encoded here.
    (directory / "tokenizer.json").write_bytes((CHECKPOINT / "tokenizer.json").read_bytes())


def model_config(case: str, directory: Path) -> ModelConfig:
    """How the checkpoint of a case is loaded."""
    if case == "mxfp4":
        changes = {"dtype": "bfloat16", "attention": "eager", "lora_target_modules": ["q_proj", "v_proj"]}
    else:
        changes = {"dtype": case}
    return replace(MODEL, checkpoint=str(directory), **changes)


class AtOnce(ProcessGroup):
    """The baseline: nobody waits for anybody."""

    def in_turn(self) -> contextlib.AbstractContextManager[None]:
        """Nothing is done."""
        return contextlib.nullcontext()


def _resident_megabytes() -> tuple[float, float]:
    """Private and file-backed memory of this process, MB."""
    status = Path("/proc/self/status").read_text()
    return tuple(int(re.search(rf"{name}:\s+(\d+)", status)[1]) * 1024 / 1e6 for name in ("RssAnon", "RssFile"))


@contextlib.contextmanager
def watched(track: list[tuple[float, float, float]]) -> Iterator[None]:
    """Add times with private and file-backed memory to ``track`` until the body ends."""
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(SECONDS_BETWEEN_LOOKS):
            track.append((time.monotonic(), *_resident_megabytes()))

    watcher = threading.Thread(target=look)
    track.append((time.monotonic(), *_resident_megabytes()))
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
        track.append((time.monotonic(), *_resident_megabytes()))


def _distributed(group: ProcessGroup, config: ModelConfig) -> PeftModel:
    return group.distribute(lambda: add_lora(load_model(config, device="cpu"), config, rank=16, alpha=32, dropout=0.0))


def load(config: ModelConfig, small: ModelConfig, order: str, output: Path) -> None:
    """Load and share out the model as one of the processes, the small one before it, and write what memory it took."""
    torch.set_num_threads(1)
    track: list[tuple[float, float, float]] = []
    with process_group("fsdp", PROCESSES) as group:
        if order == "at once":
            group = AtOnce(**vars(group))
        # Libraries are loaded at the first use of much of this.
        _distributed(group, small)
        with watched(track):
            model = _distributed(group, config)
        (output / f"{group.rank}.json").write_text(json.dumps(track))
        # Kept up to here.
        del model


def combined(tracks: list[list[tuple[float, float, float]]]) -> dict[str, float]:
    """Figures of all processes together, from what each had at its own moments (time, private MB, mapped MB)."""
    first = [track[0] for track in tracks]
    moments = sorted((moment, place, private) for place, track in enumerate(tracks) for moment, private, _ in track)
    private, peak = [start[1] for start in first], 0.0
    for _, place, megabytes in moments:
        private[place] = megabytes
        peak = max(peak, sum(private))
    before = sum(start[1] for start in first)
    return {
        "seconds": moments[-1][0] - moments[0][0],
        "private_mb": peak - before,
        "after_mb": sum(private) - before,
        "mapped_mb": max(max(mapped for *_, mapped in track) - track[0][2] for track in tracks),
    }


def run(cases: Iterable[str] = CASES, size: Mapping[str, int] = SIZE) -> list[dict]:
    """Measure every case in both orders.

    Returns:
        One dictionary per case and order: case, implementation, seconds, private_mb, after_mb, mapped_mb.
    """
    results = []
    for case in cases:
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory)
            checkpoint = root / "checkpoint"
            write_checkpoint(case, checkpoint, size)
            write_checkpoint(case, root / "small", SMALL)
            stored = sum(path.stat().st_size for path in checkpoint.glob("*.safetensors")) / 1e6
            for order in ORDERS:
                launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(PROCESSES)]
                command = [sys.executable, *launcher, "-m", "benchmarks.loading", str(root), case, order]
                subprocess.run(
                    command,
                    check=True,
                    env={**os.environ, **ENVIRONMENT},
                    cwd=Path(__file__).parents[1],
                    stderr=subprocess.DEVNULL,
                )
                tracks = [json.loads((root / f"{rank}.json").read_text()) for rank in range(PROCESSES)]
                row = {"case": case, "implementation": order}
                results.append(row | combined(tracks) | {"stored_mb": stored})
    return results


if __name__ == "__main__":
    # One of the processes that ``run`` has started.
    root = Path(sys.argv[1])
    load(*(model_config(sys.argv[2], root / name) for name in ("checkpoint", "small")), sys.argv[3], root)
