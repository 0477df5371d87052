"""What is measured on one model: training steps, scoring a trie, sampling, and the laws that engines sample.

Weights and activations have the device's dtype, LoRA weights are kept in float32, as in the pipeline. Utilisation
counts the arithmetic that the task needs: 2 operations per weight and token forward (of experts, those that a token
runs through), as many again backward for activations (frozen weights have no gradient of their own), the output head
at supervised positions only, and attention over the tokens that a query may see.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from peft import PeftModel
from transformers import PreTrainedModel

from benchmarks.gpu.engines import PlainGenerate, TokenNames, opened_in_vllm
from benchmarks.gpu.shapes import MODEL, SHAPES, STOP, random_model
from benchmarks.measure import counted
from pipeline.core.laws.discretize import discretize
from pipeline.core.prompts.structured import build_split
from pipeline.core.training.batches import collate, plan_passes
from pipeline.core.training.examples import Example, soft_example
from pipeline.core.training.objectives import soft_target_loss
from pipeline.core.tries.digit_tokens import DigitTokens
from pipeline.core.tries.trie import build_tries
from pipeline.engines.loading.model import add_lora, position_logits
from pipeline.engines.sampling.generate import generate_prompts, sample_seeds
from pipeline.engines.sampling.preflight_law import (
    RELATIVE_ERROR,
    LawCheck,
    check_laws,
    law_checks,
    most_random,
    power,
    power_warning,
)
from pipeline.engines.sampling.samplers import SamplingLaw
from pipeline.engines.sampling.text_engine import SampleRequest, TextEngine
from pipeline.engines.sampling.transformers_engine import TransformersEngine
from pipeline.engines.scoring.tree_attention import supports_tree_attention
from pipeline.engines.scoring.tree_scorer import TreeScorer, trie_tree
from pipeline.engines.training.fit import LOGITS_PER_CHUNK, backward_pass, pass_cost
from pipeline.errors import ModelError
from pipeline.estimates.cost import training_memory_bytes

PROMPT_TOKENS, NUM_PROMPTS, PATHS = 60, 32, 16
ROWS_PER_PASS = 8
"""Prompts of a training pass, ``train.micro_batch_size`` of the paper's experiment."""
RANK, LORA_TARGETS = 16, ("q_proj", "k_proj", "v_proj", "o_proj")
ANSWER_TOKENS = 16
REQUESTS = 2
"""Whose laws engines are checked on."""
# One token per digit, ids as in Qwen's vocabulary.
RULE = DigitTokens((np.arange(15, 25, dtype=np.int32),), minus=12, point=13, terminator=STOP)

Figures = dict[str, Any]


def with_adapter(base: PreTrainedModel) -> PeftModel:
    """A model with fresh LoRA weights, as training has it."""
    settings = replace(MODEL, lora_target_modules=list(LORA_TARGETS))
    return add_lora(base, settings, rank=RANK, alpha=32, dropout=0.05)


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


def matmul_ceiling(device: str, dtype: torch.dtype) -> float:
    """TFLOP/s of a square matrix multiplication."""
    size = 8192 if device == "cuda" else 512
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    return 2 * size**3 / timed(lambda: a @ b, device, repeats=10) / 1e12


def forward_flops(model: torch.nn.Module, tokens: int, positions: int, attended: int) -> float:
    """Operations of one forward pass."""
    config = model.config
    experts = getattr(config, "num_local_experts", 1)
    share = getattr(config, "num_experts_per_tok", 1) / experts
    linear = 0.0
    for name, parameter in model.named_parameters():
        if "layers." in name and "bias" not in name and parameter.dim() > 1:
            linear += parameter.numel() * (share if parameter.dim() == 3 else 1.0)
    attention = 4 * config.num_hidden_layers * config.num_attention_heads * config.head_dim * attended
    return 2.0 * linear * tokens + 2.0 * config.vocab_size * config.hidden_size * positions + attention


def attended_pairs(examples: Sequence[Example]) -> int:
    """(query, key) pairs that the examples' trees and prompts need."""
    return sum(
        len(e.prompt_ids) * (len(e.prompt_ids) + 1) // 2 + int(e.tree.depths.sum()) + len(e.tree) * len(e.prompt_ids)
        for e in examples
    )


class Measurements:
    """Figures of one model; each method measures one case, and they are called in the order of ``CASES``."""

    def __init__(
        self,
        name: str,
        device: str,
        dtype: str,
        *,
        peak: float | None,
        ceiling: float,
        repeats: int,
        num_samples: int,
        rows: int,
    ):
        """Build the model."""
        self.name, self.shape, self.device, self.dtype = name, SHAPES[name], device, dtype
        self.peak, self.ceiling, self.repeats = peak, ceiling, repeats
        self.num_samples, self.rows = num_samples, rows
        self._reset_peak()
        started = time.perf_counter()
        base = random_model(self.shape, device, getattr(torch, dtype))
        self.build_seconds = time.perf_counter() - started
        self.num_parameters = sum(parameter.numel() for parameter in base.parameters())
        self.load_bytes = torch.cuda.memory_allocated() if device == "cuda" else None
        self.model = with_adapter(base).to(device).eval()
        self.base = base
        rng = np.random.default_rng(0)
        self.prompts = [rng.integers(100, 4000, PROMPT_TOKENS).tolist() for _ in range(NUM_PROMPTS)]
        laws = [prompt.law for prompt in build_split("train", prompts_per_family=2) if not prompt.law.integer]
        spaces = [discretize(law, num_decimals=5, max_bins=1_001) for law in laws[:NUM_PROMPTS]]
        self.tries = list(build_tries(spaces, RULE))

    def _reset_peak(self) -> None:
        if self.device == "cuda":
            torch.cuda.reset_peak_memory_stats()

    def _rates(self, function: Callable[[], object], tokens: int, flops: float) -> Figures:
        """Time a function that runs so many tokens and operations."""
        self._reset_peak()
        seconds = timed(function, self.device, self.repeats)
        rate = flops / seconds / 1e12
        return {
            "seconds": seconds,
            "tokens": tokens,
            "tokens_per_second": tokens / seconds,
            "tflops": rate,
            "mfu": rate / self.peak if self.peak else None,
            "of_matmul": rate / self.ceiling,
            "peak_gb": torch.cuda.max_memory_allocated() / 1e9 if self.device == "cuda" else None,
        }

    def load(self) -> Figures:
        """Weights and memory of the model; two bytes a weight were planned."""
        return {
            "parameters": self.num_parameters,
            "seconds": self.build_seconds,
            "peak_gb": None if self.load_bytes is None else self.load_bytes / 1e9,
            "planned_gb": 2 * self.num_parameters / 1e9,
        }

    def _step(self, paths: int) -> Figures:
        """An optimiser step of the soft target on ``NUM_PROMPTS`` prompts with so many paths behind each."""
        rng = np.random.default_rng(1)
        pairs = zip(self.prompts, self.tries, strict=False)
        examples = [soft_example(prompt, trie, rng, *([paths] if paths > 1 else [])) for prompt, trie in pairs]
        logits_at = position_logits(self.model)
        trees, cost = supports_tree_attention(self.model), pass_cost(logits_at.model)
        passes = plan_passes(examples, ROWS_PER_PASS, None, trees, cost)
        batches = [collate(rows, 0, len(examples)).to(self.device) for rows in passes]
        members = [row for rows in passes for row in rows]
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        # A rate of nothing: what is measured next is the same model.
        optimizer = torch.optim.AdamW(trained, lr=0.0, fused=True)

        def step() -> None:
            for batch in batches:
                backward_pass(logits_at, batch, soft_target_loss, 1.0, LOGITS_PER_CHUNK)
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            optimizer.zero_grad()

        flops = 2 * forward_flops(
            self.base,
            sum(row.num_inputs for row in members),
            sum(len(row.nodes) for row in members),
            attended_pairs(members),
        )
        self.model.train()
        try:
            figures = self._rates(step, sum(row.num_inputs for row in members), flops)
        finally:
            self.model.eval()
        largest = max(batch.input_ids.numel() for batch in batches)
        planned = training_memory_bytes(self.num_parameters, largest, RANK, len(LORA_TARGETS))
        return figures | {"planned_gb": planned / 1e9, "tokens_per_pass": largest}

    def train_paths(self) -> Figures:
        """A step as the paper's: one path behind each prompt."""
        return self._step(1)

    def train_packed(self) -> Figures:
        """A step with packed paths."""
        return self._step(PATHS)

    def score(self) -> Figures:
        """The log-probability of every edge of a trie of 1,001 strings."""
        scorer = TreeScorer(self.model, token_budget=2048 if self.device == "cuda" else 512)
        trie = self.tries[0]
        tree = trie_tree(trie)
        pairs = int(tree.depths.sum()) + len(tree) * PROMPT_TOKENS
        flops = forward_flops(self.base, trie.num_prefixes, trie.num_prefixes, pairs)
        prompt = scorer.prefill(self.prompts[0])
        return self._rates(lambda: scorer.score_trie(prompt, trie), trie.num_prefixes, flops)

    def sample(self) -> Figures:
        """Answers to one prompt, a row each; random weights spread them, so prefixes hardly merge."""

        def draw() -> None:
            answers = generate_prompts(
                self.model,
                TokenNames(),
                [self.prompts[0]],
                [sample_seeds(0, ("gpu",), self.num_samples)],
                [SamplingLaw(1.0, 1.0)],
                # No token ends an answer: all are equally long, whatever the weights.
                stop_ids={self.shape.vocabulary},
                max_new_tokens=ANSWER_TOKENS,
                batch_size=self.rows,
            )
            list(answers)

        with counted(self.model) as cost:
            draw()
        run = cost.positions
        flops = forward_flops(self.base, run, run, run * (PROMPT_TOKENS + ANSWER_TOKENS // 2))
        figures = self._rates(draw, self.num_samples * ANSWER_TOKENS, flops)
        steps = figures["tokens"] / self.rows
        return figures | {"rows": self.rows, "decoding_step": figures["seconds"] / steps}

    def sample_plain(self) -> Figures:
        """The same number of answers by ``generate`` of transformers."""
        engine = PlainGenerate(self.base, self.rows)
        request = SampleRequest("plain", self.prompts[0], dict.fromkeys(range(self.num_samples), 0), ANSWER_TOKENS)
        drawn: list[int] = []

        def draw() -> None:
            drawn[:] = [sample.generation.num_tokens for part in engine.sample([request]) for sample in part]

        seconds = timed(draw, self.device, 1)
        return {"seconds": seconds, "tokens": sum(drawn), "tokens_per_second": sum(drawn) / seconds, "rows": self.rows}

    @cached_property
    def _checks(self) -> list[LawCheck]:
        # The adapter starts as no change, so the model with it has the base model's law.
        requests = {f"request-{place}": prompt for place, prompt in enumerate(self.prompts[:8])}
        return law_checks(self.base, TokenNames(), most_random(self.base, requests, REQUESTS), {STOP})

    def _follow(self, engines: Mapping[str, TextEngine]) -> Figures:
        error, found = RELATIVE_ERROR[self.dtype], {}
        for name, engine in engines.items():
            try:
                found[name] = check_laws(engine, self._checks, seed=0, model=self.name, relative_error=error)["p_value"]
            except ModelError as refused:
                raise ModelError(f"{name}: {refused}") from None
        noticed = power(self._checks, error)
        return {"p_values": found, "power": noticed, "note": power_warning(noticed) or "a wrong engine would show"}

    def laws(self) -> Figures:
        """Samples of our engine and of plain ``generate`` against the exact softmax, and what that would notice.

        Raises:
            ModelError: The samples of an engine do not follow it; the message names the engine.
        """
        ours = TransformersEngine(self.model, TokenNames(), {STOP}, batch_size=self.rows)
        return self._follow({"ours": ours, "plain generate": PlainGenerate(self.base, self.rows)})

    def laws_vllm(self) -> Figures:
        """The same of vLLM, which loads the weights from a checkpoint. Raises ModelError."""
        with opened_in_vllm(self.base, self.dtype, self.prompts[0]) as engine:
            return self._follow({"vllm": engine})
