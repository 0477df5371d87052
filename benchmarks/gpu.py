"""Training steps, trie scoring and sampling on a GPU, for models of real shapes with random weights.

    python -m benchmarks.gpu --shapes qwen3_0_6b qwen3_1_7b qwen3_8b

Weights and activations are bfloat16, LoRA weights float32, as in the pipeline. Utilisation counts
the arithmetic that the task needs: 2 operations per weight and token forward, as many again
backward for activations (frozen weights have no gradient of their own), the output head at
supervised positions only, and attention over the tokens that a query may see. It is given as
a share of the device's specified dense bfloat16 peak (model FLOP utilisation) and of a square
matrix multiplication timed in the same run.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen3Config, Qwen3ForCausalLM

from benchmarks.table import print_rows
from pipeline.artifacts.storage import write_json
from pipeline.core.laws.discretize import discretize
from pipeline.core.prompts.structured import build_split
from pipeline.core.training.batches import collate, plan_passes
from pipeline.core.training.examples import Example, exact_example, hard_example, soft_example
from pipeline.core.training.objectives import hard_target_loss, soft_target_loss
from pipeline.core.tries.digit_tokens import DigitTokens
from pipeline.core.tries.trie import Trie, build_tries
from pipeline.engines.loading.model import position_logits
from pipeline.engines.sampling.generate import generate, sample_seeds
from pipeline.engines.sampling.samplers import GenerationStatistics
from pipeline.engines.scoring.tree_scorer import TreeScorer
from pipeline.engines.training.fit import LOGITS_PER_CHUNK, backward_pass

# Sizes from the configuration files of the checkpoints; "tiny" is for trying the script without a GPU.
SHAPES = {
    "tiny": {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "tie_word_embeddings": True,
        "vocab_size": 4096,
    },
    "qwen3_0_6b": {
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "tie_word_embeddings": True,
        "vocab_size": 151_936,
    },
    "qwen3_1_7b": {
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "tie_word_embeddings": True,
        "vocab_size": 151_936,
    },
    "qwen3_8b": {
        "hidden_size": 4096,
        "intermediate_size": 12_288,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "tie_word_embeddings": False,
        "vocab_size": 151_936,
    },
}
# Specified dense bfloat16 peak, TFLOP/s, by a part of the device's name.
PEAKS = {"H100": 989.0, "H200": 989.0, "A100": 312.0, "L40": 181.0, "A10": 125.0}
PROMPT_TOKENS = 60
# One token per digit, ids as in Qwen's vocabulary.
RULE = DigitTokens((np.arange(15, 25, dtype=np.int32),), minus=12, point=13, terminator=2)


class Texts:
    """Stands in for a tokenizer where only decoding is asked for."""

    def decode(self, tokens: Sequence[int], **_: object) -> str:
        """The token ids as text."""
        return " ".join(map(str, tokens))


def matmul_ceiling(device: str, size: int) -> float:
    """TFLOP/s of a square bfloat16 matrix multiplication."""
    a, b = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    seconds = timed(lambda: a @ b, device, repeats=10)
    return 2 * size**3 / seconds / 1e12


def timed(function: Callable[[], object], device: str, repeats: int) -> float:
    """Median seconds of a call, after one that does not count."""
    times = []
    for _ in range(repeats + 1):
        if device == "cuda":
            torch.cuda.synchronize()
        started = time.perf_counter()
        function()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    return statistics.median(times[1:])


def make_model(shape: str, device: str, compiled: bool) -> torch.nn.Module:
    """A randomly initialised Qwen3 model with LoRA on its attention projections."""
    config = Qwen3Config(**SHAPES[shape], max_position_embeddings=4096, attn_implementation="sdpa")
    previous = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(device):
            base = Qwen3ForCausalLM(config).eval()
    finally:
        torch.set_default_dtype(previous)
    lora = LoraConfig(r=16, lora_alpha=32, lora_dropout=0.05, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"])
    model = get_peft_model(base, lora).to(device)
    if compiled:
        # In place: position_logits and the adapters keep finding their modules.
        model.get_base_model().model.compile(dynamic=True)
    return model


def forward_flops(model: torch.nn.Module, tokens: int, positions: int, attended: int) -> float:
    """Operations of one forward pass.

    Args:
        model: The model.
        tokens: Tokens read.
        positions: Positions at which the output head is applied.
        attended: (query, key) pairs.
    """
    config = model.get_base_model().config
    linear = sum(p.numel() for name, p in model.named_parameters() if "layers." in name and p.dim() == 2)
    attention = 4 * config.num_hidden_layers * config.num_attention_heads * config.head_dim * attended
    return 2.0 * linear * tokens + 2.0 * config.vocab_size * config.hidden_size * positions + attention


def attended_pairs(examples: Sequence[Example]) -> int:
    """(query, key) pairs that the examples' trees and prompts need."""
    return sum(
        len(e.prompt_ids) * (len(e.prompt_ids) + 1) // 2 + int(e.tree.depths.sum()) + len(e.tree) * len(e.prompt_ids)
        for e in examples
    )


class Bench:
    """Figures of one model."""

    def __init__(self, shape: str, device: str, ceiling: float, peak: float | None, compiled: bool, repeats: int):
        self.shape, self.device, self.ceiling, self.peak, self.repeats = shape, device, ceiling, peak, repeats
        self.compiled = compiled
        self.model = make_model(shape, device, compiled)
        self.rows: list[dict] = []
        rng = np.random.default_rng(0)
        self.prompts = [rng.integers(100, 4000, PROMPT_TOKENS).tolist() for _ in range(32)]
        laws = [prompt.law for prompt in build_split("train", prompts_per_family=2) if not prompt.law.integer][:32]
        self.tries = list(build_tries([discretize(law, num_decimals=5, max_bins=1_001) for law in laws], RULE))

    def record(self, case: str, function: Callable[[], object], *, tokens: int, flops: float, **extras) -> None:
        """Time a function and add its row."""
        if self.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        seconds = timed(function, self.device, self.repeats)
        rate = flops / seconds / 1e12
        self.rows.append(
            {
                "benchmark": "gpu",
                "case": f"{self.shape}: {case}",
                "implementation": "compiled" if self.compiled else "eager",
                "seconds": seconds,
                "tokens_per_second": tokens / seconds,
                "tflops": rate,
                "model_flop_utilisation": rate / self.peak if self.peak else None,
                "fraction_of_matmul": rate / self.ceiling,
                "peak_gb": torch.cuda.max_memory_allocated() / 1e9 if self.device == "cuda" else None,
                **extras,
            }
        )
        print({key: value for key, value in self.rows[-1].items() if key != "benchmark"}, flush=True)

    def training(self, case: str, examples: list[Example], objective, tokens_per_pass: int | None = None) -> None:
        """One optimiser step's forward and backward passes, without the optimiser's own update."""
        logits_at = position_logits(self.model)
        passes = plan_passes(examples, 32, tokens_per_pass)
        batches = [collate(rows, 0, len(examples)).to(self.device) for rows in passes]
        members = [row for rows in passes for row in rows]
        self.model.train()

        def step() -> None:
            for batch in batches:
                backward_pass(logits_at, batch, objective, 1.0, LOGITS_PER_CHUNK)
            self.model.zero_grad()

        tokens = sum(example.num_inputs for example in members)
        positions = sum(len(example.nodes) for example in members)
        flops = 2 * forward_flops(self.model, tokens, positions, attended_pairs(members))
        sequences = sum(example.sequences for example in examples)
        self.record(case, step, tokens=tokens, flops=flops, sequences=sequences)
        self.model.eval()

    def scoring(self, trie: Trie, case: str) -> None:
        """The model's log-probability of every edge of a trie."""
        scorer = TreeScorer(self.model, token_budget=2048 if self.device == "cuda" else 512)
        pairs = int(scorer_pairs(trie))
        flops = forward_flops(self.model, trie.num_prefixes, trie.num_prefixes, pairs)
        prompt = scorer.prefill(self.prompts[0])
        self.record(
            f"{case} ({scorer.strategy})",
            lambda: scorer.score_trie(prompt, trie),
            tokens=trie.num_prefixes,
            flops=flops,
        )

    def sampling(self, num_samples: int, strategy: str) -> None:
        """Answers to one prompt; random weights spread them, so prefixes hardly merge."""
        counts = GenerationStatistics()

        def sample() -> None:
            counts.__init__()
            generate(
                self.model,
                Texts(),
                self.prompts[0],
                sample_seeds(0, ("gpu",), num_samples),
                stop_ids={2},
                max_new_tokens=16,
                temperature=1.0,
                top_p=1.0,
                batch_size=512,
                strategy=strategy,
                statistics=counts,
            )

        sample()
        tokens = counts.positions
        flops = forward_flops(self.model, tokens, tokens, tokens * (PROMPT_TOKENS + 8))
        self.record(
            f"sampling {num_samples} answers of 16 tokens, {strategy}",
            sample,
            tokens=tokens,
            flops=flops,
            samples_per_second=None,
        )
        self.rows[-1]["samples_per_second"] = num_samples / self.rows[-1]["seconds"]

    def run(self) -> list[dict]:
        """All cases."""
        rng = np.random.default_rng(1)
        pairs = list(zip(self.prompts, self.tries, strict=False))
        soft = [soft_example(prompt, trie, rng) for prompt, trie in pairs]
        self.training(f"soft step, {len(soft)} prompts", soft, soft_target_loss)
        paths = [soft_example(prompt, trie, rng, 16) for prompt, trie in pairs]
        self.training(f"soft step, {len(soft)} prompts x 16 paths packed", paths, soft_target_loss)
        hard = [hard_example(prompt, [trie.sample_path(rng)[0]]) for prompt, trie in pairs]
        self.training(f"hard step, {len(hard)} completions", hard, hard_target_loss)
        texts = [[trie.sample_path(rng)[0] for _ in range(16)] for _, trie in pairs[:8]]
        unpacked = [hard_example(p, [t]) for (p, _), group in zip(pairs[:8], texts, strict=True) for t in group]
        self.training("hard step, 8 prompts x 16 completions, unpacked", unpacked, hard_target_loss)
        packed = [hard_example(prompt, group) for (prompt, _), group in zip(pairs[:8], texts, strict=True)]
        self.training("hard step, 8 prompts x 16 completions, packed", packed, hard_target_loss)
        self.training(
            "exact step, 1 prompt, whole trie of 1,001 strings", [exact_example(*pairs[0])], soft_target_loss, 2_048
        )
        self.scoring(self.tries[0], "scoring a trie of 1,001 strings")
        for strategy in ("merged", "rows"):
            self.sampling(1_000 if self.device == "cuda" else 64, strategy)
        return self.rows


def scorer_pairs(trie: Trie) -> int:
    """(query, key) pairs of scoring a trie over a cached prompt."""
    from pipeline.engines.scoring.tree_scorer import trie_tree

    tree = trie_tree(trie)
    return int(tree.depths.sum()) + len(tree) * PROMPT_TOKENS


def run(shapes: Sequence[str], device: str | None = None, compiled: bool = False, repeats: int = 10) -> list[dict]:
    """Rows of all cases for each shape.

    Args:
        shapes: Keys of ``SHAPES``.
        device: "cuda" or "cpu"; the GPU where there is one.
        compiled: Compile the layers with ``torch.compile``.
        repeats: Timed calls per case; the median counts.
    """
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    peak = next((value for part, value in PEAKS.items() if part in name), None)
    ceiling = matmul_ceiling(device, 8192 if device == "cuda" else 512)
    print(f"{name}: {ceiling:.1f} TFLOP/s in a matrix multiplication, specified peak {peak or 'unknown'}", flush=True)
    rows = []
    for shape in shapes:
        rows += [{**row, "device": name} for row in Bench(shape, device, ceiling, peak, compiled, repeats).run()]
        if device == "cuda":
            torch.cuda.empty_cache()
    return rows


def main(shapes: list[str], device: str | None, compiled: bool, repeats: int, output: Path | None) -> None:
    """Run, print and write."""
    rows = run(shapes, device, compiled, repeats)
    print_rows(rows)
    if output is not None:
        write_json(output, rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--shapes",
        nargs="+",
        choices=list(SHAPES),
        default=["qwen3_0_6b", "qwen3_1_7b", "qwen3_8b"],
        help="models to build (default: %(default)s)",
    )
    parser.add_argument("--device", choices=["cuda", "cpu"], help="default: the GPU where there is one")
    parser.add_argument("--compiled", action="store_true", help="compile the layers with torch.compile")
    parser.add_argument("--repeats", type=int, default=10, help="timed calls per case (default: %(default)s)")
    parser.add_argument("--output", type=Path, help="JSON file for the rows")
    main(**vars(parser.parse_args()))
