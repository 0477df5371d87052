"""Training steps of 8 prompts: ours through ``fit``, and a plain PEFT implementation.

Plain: PEFT's LoRA, a padded row for each path or completion (at most 16 rows a pass), logits at all positions, torch's
losses and AdamW; bfloat16 by ``torch.autocast``. Soft targets come from a dictionary of prefixes. Both see the same
paths, and their losses must agree.
"""

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch.nn.functional import cross_entropy, kl_div, log_softmax
from torch.nn.utils.rnn import pad_sequence
from transformers import get_cosine_schedule_with_warmup

from benchmarks import measure
from benchmarks.checkpoints import parameters, plain_model
from benchmarks.gpu.cases import forward_flops
from benchmarks.measure import Case, Figures, Measured, Row, Turn
from benchmarks.tries import prefix_laws
from pipeline.config.training import TrainConfig
from pipeline.core.laws.discretize import discretize_all
from pipeline.core.prompts.structured import build_split
from pipeline.core.training.examples import Example, hard_example, soft_example, training_steps
from pipeline.core.training.objectives import hard_target_loss, soft_target_loss
from pipeline.core.tries.token_tree import merge_sequences
from pipeline.engines.loading.chat import answer_terminator, encode_answers, request_encoder
from pipeline.engines.loading.digit_rule import find_digit_tokens, tries_of
from pipeline.engines.loading.model import add_lora, load_model, load_tokenizer, machine_dtype
from pipeline.engines.training.fit import Term, fit

PROMPTS, PLAIN_ROWS = 8, 16
PATHS = (1, 2, 4, 8, 16)
TOLERANCE = {"float32": 1e-4, "bfloat16": 5e-2}
LONG, LATE = 240, 20  # steps of a long training, and how many of the last are measured
SPINNING = {"OMP_WAIT_POLICY": "ACTIVE", "GOMP_SPINCOUNT": "INFINITE"}


@dataclass(frozen=True)
class Step:
    """A training step: of which model, target and dtype, with how many paths or completions behind each prompt."""

    model: str
    method: str = "soft"
    paths: int = 1
    dtype: str = "float32"

    @property
    def settings(self) -> TrainConfig:
        """The laptop's, but for a small rate, by which rounding does not grow from step to step."""
        return replace(parameters().train, warmup_ratio=0.0, learning_rate=1e-4)


@dataclass(frozen=True)
class PlainRow:
    """A prompt, a completion (terminator last), and the next-token laws of the prompt by prefixes."""

    prompt: list[int]
    completion: list[int]
    laws: Mapping[tuple[int, ...], Mapping[int, float]]


class Material:
    """The prompts of the first ``steps`` steps of a training, and what either implementation makes of them."""

    def __init__(self, step: Step, steps: int = 1):
        config, self._step = parameters(), step
        model, space = config.models[step.model], config.discretize.soft
        most = config.prompts.train_prompts_per_family if steps == 1 else None
        prompts = build_split("train", prompts_per_family=most)
        families = [prompt.family for prompt in prompts]
        first = training_steps(families, 1, 1, PROMPTS, config.train_seed, step.model, step.method)[:steps]
        chosen = [prompts[draw.prompt_index] for draws in first for draw in draws]
        self._tokenizer = load_tokenizer(model)
        self._terminator = answer_terminator(self._tokenizer, model.terminator)
        self._prompts = list(map(request_encoder(self._tokenizer, model), [prompt.text for prompt in chosen]))
        laws = [prompt.law for prompt in chosen]
        self._spaces = dict(enumerate(discretize_all(laws, num_decimals=space.num_decimals, max_bins=space.max_bins)))
        rule = find_digit_tokens(self._tokenizer, self._terminator, space.num_decimals)
        self._tries = dict(tries_of(self._tokenizer, rule, self._terminator, self._spaces))

    def _completions(self, place: int) -> list[list[int]]:
        paths = self._tries[place].sample_paths(np.random.default_rng(place), self._step.paths)
        return [tokens.tolist() for tokens, _ in paths]

    def examples(self, number: int, first: int = 0) -> list[Example]:
        """Those of so many prompts, from the ``first``."""
        places = range(first, first + number)
        if self._step.method == "hard":
            return [hard_example(self._prompts[place], self._completions(place), "token") for place in places]
        laws = [(self._prompts[place], self._tries[place], np.random.default_rng(place)) for place in places]
        return [soft_example(*each, self._step.paths) for each in laws]

    def plain_rows(self) -> list[PlainRow]:
        """A row for each completion of each prompt, in their order."""
        rows = []
        for place, space in self._spaces.items():
            strings = [[*ids, self._terminator] for ids in encode_answers(self._tokenizer, space.values)]
            laws = prefix_laws(strings, space.probabilities.tolist())
            rows += [PlainRow(self._prompts[place], ids, laws) for ids in self._completions(place)]
        return rows


def step_flops(base: torch.nn.Module, rows: Sequence[PlainRow]) -> float:
    """Operations that a step needs: every distinct prefix once, forward and backward for activations."""
    tree, nodes_of = merge_sequences([[*row.prompt, *row.completion[:-1]] for row in rows])
    supervised = {node for row, nodes in zip(rows, nodes_of, strict=True) for node in nodes[len(row.prompt) - 1 :]}
    return 2 * forward_flops(base, len(tree), len(supervised), int(tree.depths.sum()))


def plain_loss(model: PeftModel, rows: Sequence[PlainRow], method: str, size: int) -> torch.Tensor:
    """These rows' share of the loss of a step with ``size`` tokens (hard) or rows (soft)."""
    inputs = [torch.tensor([*row.prompt, *row.completion[:-1]]) for row in rows]
    ids = pad_sequence(inputs, batch_first=True)
    mask = pad_sequence([torch.ones_like(row) for row in inputs], batch_first=True)
    logits = model(input_ids=ids, attention_mask=mask).logits
    if method == "hard":
        labels = torch.full(ids.shape, -100)
        for place, row in enumerate(rows):
            labels[place, len(row.prompt) - 1 : len(inputs[place])] = torch.tensor(row.completion)
        return cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), reduction="sum") / size
    places = [(place, k) for place, row in enumerate(rows) for k in range(len(row.completion))]
    targets = torch.zeros(len(places), logits.shape[-1])
    for target, (place, k) in zip(targets, places, strict=True):
        law = rows[place].laws[tuple(rows[place].completion[:k])]
        target[list(law)] = torch.tensor(list(law.values()))
    weights = torch.tensor([1 / len(rows[place].completion) / size for place, _ in places])
    at = torch.tensor([(place, len(rows[place].prompt) - 1 + k) for place, k in places]).unbind(1)
    log_probabilities = log_softmax(logits[at].float(), dim=-1)
    return (kl_div(log_probabilities, targets, reduction="none").sum(-1) * weights).sum()


def plain(turn: Turn, step: Step, steps: int) -> None:
    """The plain implementation; its first step, of one prompt, is to warm up."""
    material, settings, base = Material(step).plain_rows(), step.settings, plain_model(step.model)
    flops = step_flops(base, material)
    targets = list(parameters().models[step.model].lora_target_modules)
    torch.manual_seed(0)
    lora = LoraConfig(r=settings.lora_rank, lora_alpha=settings.lora_alpha, target_modules=targets)
    model = get_peft_model(base, lora).train()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=settings.learning_rate, weight_decay=settings.weight_decay)
    schedule = get_cosine_schedule_with_warmup(optimizer, 0, steps)
    for index in range(steps):
        rows, loss, tokens, started = material if index else material[: step.paths], 0.0, 0, time.monotonic()
        size = len(rows) if step.method == "soft" else sum(len(row.completion) for row in rows)
        for start in range(0, len(rows), PLAIN_ROWS):
            autocast = torch.autocast("cpu", torch.bfloat16, enabled=step.dtype == "bfloat16")
            with autocast, measure.counted(model) as cost:
                part = plain_loss(model, rows[start : start + PLAIN_ROWS], step.method, size)
            part.backward()
            loss += part.item()
            tokens += cost.positions
        norm = torch.nn.utils.clip_grad_norm_(trained, settings.max_grad_norm).item()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        figures = {"seconds": time.monotonic() - started, "loss": loss, "grad_norm": norm, "tokens": tokens}
        turn(figures | {"flops": flops, "rate": measure.matmul_rate(step.dtype)})


def ours(turn: Turn, step: Step, steps: int, threads: int | None = None) -> None:
    """The pipeline's training; its first step, of one prompt, is to warm up."""
    if threads is not None:
        torch.set_num_threads(threads)
    material = Material(step)
    train(turn, step, steps, lambda index: material.examples(PROMPTS if index else 1))


def train(turn: Turn, step: Step, steps: int, make_examples: Callable[[int], list[Example]]) -> None:
    """Train as the pipeline does on the examples of each step."""
    settings, config = step.settings, replace(parameters().models[step.model], dtype=step.dtype)
    base = load_model(config, device="cpu")
    torch.manual_seed(0)
    model = add_lora(base, config, rank=settings.lora_rank, alpha=settings.lora_alpha, dropout=settings.lora_dropout)
    term = Term(step.method, make_examples, hard_target_loss if step.method == "hard" else soft_target_loss)
    with tempfile.TemporaryDirectory() as directory:
        checkpoint = Path(directory) / "state.safetensors"
        fit(model, [term], steps, settings, seed=0, stream=(), pad_id=0, checkpoint=checkpoint, on_step=turn)


def long(turn: Turn, step: Step) -> None:
    """The last steps of a long training on prompts that are all new."""
    material = Material(step, LONG)

    def late(figures: Figures) -> None:
        if figures["step"] > LONG - LATE:
            turn(figures)

    train(late, step, LONG, lambda index: material.examples(PROMPTS, index * PROMPTS))


def in_environments(
    environments: Mapping[str, Mapping[str, str]], function: str, turns: int, **given: Any
) -> list[Row]:
    """Rows of one function by the environment of its process, one after the other."""
    found = {}
    for name, environment in environments.items():
        found[name] = measure.in_turns(__name__, [function], turns, environment=environment, **given)[function]
    return measure.summary(found)


def after_many_steps(step: Step, repeats: int) -> list[Row]:
    """Late steps of a long training under the C library's allocator, and under the pipeline's; each runs once."""
    return in_environments({"plain": {"LD_PRELOAD": ""}, "ours": {}}, "long", LATE - 1, step=step)


def compare(step: Step, repeats: int) -> list[Row]:
    """Rows of the plain implementation, ours and the limit; a note where the processor lacks the instructions.

    Raises RuntimeError where losses or gradients differ.
    """
    if step.dtype == "bfloat16" and machine_dtype() != "bfloat16":
        return [{"implementation": "plain", "note": "no bfloat16 instructions"}]
    found = measure.against_plain(__name__, repeats, step=step, steps=repeats + 1)
    expected = found["plain"]
    if step.dtype == "bfloat16":
        # There PEFT loses small updates to rounding, so ours is held to what float32 gives.
        exact = {"step": replace(step, dtype="float32"), "steps": repeats + 1}
        expected = measure.in_turns(__name__, ["plain"], len(expected), **exact)["plain"]
    check_equal(expected, found["ours"], TOLERANCE[step.dtype])
    return measure.summary(found)


def check_equal(plain: Sequence[Figures], ours: Sequence[Figures], tolerance: float) -> None:
    """Raises RuntimeError where a loss or a norm of gradients differs by more than ``tolerance``, relatively."""
    for number, pair in enumerate(zip(plain, ours, strict=True), 1):
        for key in ("loss", "grad_norm"):
            expected, found = (figures[key] for figures in pair)
            if not abs(found - expected) <= tolerance * max(abs(expected), 1):
                raise RuntimeError(f"{key} of step {number} is {expected} in the plain implementation, {found} in ours")


@contextlib.contextmanager
def busy_process() -> Iterator[None]:
    """Another process that keeps one core busy."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def beside_a_busy_process(step: Step, threads: int, repeats: int) -> list[Row]:
    """Our step with waiting threads that spin, and as the pipeline sets it; idle threads spin, too."""
    given = {"step": step, "steps": repeats + 1, "threads": threads}
    with busy_process():
        return in_environments({"spinning": SPINNING, "passive": {}}, "ours", repeats, **given)


def cases() -> Measured:
    """What is measured."""
    steps = [Step("smollm2", paths=paths) for paths in PATHS]
    steps += [Step("smollm2", dtype="bfloat16"), Step("smollm2", "hard"), Step("smollm2", "hard", dtype="bfloat16")]
    steps += [Step("embedded", paths=paths) for paths in PATHS]
    for step in steps:
        unit = "completion" if step.method == "hard" else "path" if step.paths == 1 else "paths"
        name = f"{step.method} step, {step.paths} {unit}"
        yield Case("training", name, step.model, step.dtype, str(step.paths)), partial(compare, step)
    name = f"step {LONG - LATE + 1} to {LONG} of a training; plain: under glibc's malloc"
    late = Step("smollm2", paths=4, dtype="bfloat16")
    yield Case("training", name, late.model, late.dtype), partial(after_many_steps, late)
    for threads in (1, 2):
        name = f"ours, {threads} thread{'s' * (threads > 1)} beside a busy process; plain: threads that spin"
        yield Case("training", name, "smollm2", "float32"), partial(beside_a_busy_process, Step("smollm2"), threads)
