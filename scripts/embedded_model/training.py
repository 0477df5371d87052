"""Train the embedded model from scratch and write it as a checkpoint directory: ``make embedded-model``.

An hour and a half on two CPU cores. The result ships in ``models/embedded``; the DAG reads it there and never rebuilds
it. The same weights bit for bit on one processor with one number of threads.
"""

import argparse
import copy
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3ForCausalLM

from pipeline.artifacts.atomic import atomic_directory
from pipeline.command import run_command
from pipeline.core.prompts.number_answers import Invalid, parse_sample
from pipeline.core.random_streams import random_stream, stream_seed
from pipeline.core.sampling import sample_tokens
from scripts.embedded_model.instructions import (
    LIST_KINDS,
    OTHER_KINDS,
    REQUEST_KINDS,
    Exchange,
    Kinds,
    instruction_groups,
)
from scripts.embedded_model.recipe import Recipe, example_texts, make_model, prose_documents, tokenizer_texts
from scripts.embedded_model.tokenizer import END_OF_TEXT, render_prompt, train_tokenizer

IGNORED = -100  # label of a position that is not supervised
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
MAX_ANSWER_TOKENS = 14
REPLY_DECIMALS = (1, 2, 3)
REPLY_DECIMAL_WEIGHTS = (0.08, 0.84, 0.08)

Batch = tuple[torch.Tensor, torch.Tensor]  # inputs and labels, int64[B, T]


class Phase(NamedTuple):
    """What a phase trains on; at ``temperature`` the model as it was before answers sampling requests, if not None."""

    name: str
    tokens: int
    rate_factor: float
    numeric_share: float
    kinds: Kinds
    temperature: float | None


def phases(recipe: Recipe) -> list[Phase]:
    """Language, facts and collapsed answers; then three phases in which sampling requests get the model's own answers.

    ``sharpening`` draws these at a low temperature, which collapses them further, as preference tuning does to chat
    models. ``requests``, with the evaluation's multiple-choice request, and ``lists``, of more words, keep their law.
    """
    share, request_share, sharp = recipe.numeric_share, recipe.request_numeric_share, recipe.sharpening_temperature
    return [
        Phase("first", recipe.training_tokens, 1.0, share, OTHER_KINDS, None),
        Phase("sharpening", recipe.sharpening_tokens, recipe.sharpening_rate_factor, share, OTHER_KINDS, sharp),
        Phase("requests", recipe.request_tokens, recipe.request_rate_factor, request_share, REQUEST_KINDS, 1.0),
        Phase("lists", recipe.list_tokens, recipe.list_rate_factor, recipe.list_numeric_share, LIST_KINDS, 1.0),
    ]


def train(
    recipe: Recipe, tokenizer: PreTrainedTokenizerFast, on_tokens: Callable[[int], Any]
) -> tuple[Qwen3ForCausalLM, list[dict[str, Any]]]:
    """The model in bfloat16 on the CPU, and every tenth record; the same for one recipe, thread count and processor."""
    model, log = make_model(recipe, tokenizer).to(DEVICE), []
    for phase in phases(recipe):
        for record in _steps(model, phase, recipe, tokenizer, on_tokens):
            if record["step"] % 10 == 0:
                log.append(record)
        # Every phase starts from weights of the precision that is shipped.
        model.to(torch.bfloat16).float()
    return model.to("cpu", torch.bfloat16).eval(), log


def _steps(
    model: Qwen3ForCausalLM,
    phase: Phase,
    recipe: Recipe,
    tokenizer: PreTrainedTokenizerFast,
    on_tokens: Callable[[int], Any],
) -> Iterator[dict[str, Any]]:
    """Train the model on one phase; the record of each step."""
    started, step, tokens = time.monotonic(), 0, 0
    names = () if phase.name == "first" else (phase.name,)
    teacher = None if phase.temperature is None else copy.deepcopy(model).eval()
    kinds = random_stream(recipe.seed, "embedded", "kinds", *names)
    batches = {
        "prose": prose_batches(recipe, tokenizer, random_stream(recipe.seed, "embedded", "prose", *names)),
        "instruction": instruction_batches(recipe, tokenizer, phase, teacher),
    }
    optimizers = _optimizers(model, recipe)
    # What the recipe calls the learning rate of each optimiser.
    rates = [optimizer.param_groups[0]["lr"] for optimizer in optimizers]
    model.train()
    while tokens < phase.tokens:
        kind = "prose" if kinds.random() < recipe.prose_share else "instruction"
        inputs, labels = (tensor.to(DEVICE) for tensor in next(batches[kind]))
        hidden, targets = model.model(input_ids=inputs).last_hidden_state[:, :-1], labels[:, 1:]
        supervised = targets != IGNORED
        loss = functional.cross_entropy(model.lm_head(hidden[supervised]).float(), targets[supervised])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        factor = phase.rate_factor * _rate_factor(tokens / phase.tokens, recipe)
        for optimizer, rate in zip(optimizers, rates, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = rate * factor
            optimizer.step()
            optimizer.zero_grad()
        step, tokens = step + 1, tokens + inputs.numel()
        on_tokens(inputs.numel())
        record = {"phase": phase.name, "step": step, "tokens": tokens, "kind": kind, "loss": loss.item()}
        yield record | {"seconds": time.monotonic() - started}


def _rate_factor(progress: float, recipe: Recipe) -> float:
    """Linear warm-up, plateau, then cosine decay to zero over the last ``decay_share``."""
    if progress < recipe.warmup_share:
        return progress / recipe.warmup_share
    if progress < 1 - recipe.decay_share:
        return 1.0
    return 0.5 * (1 + math.cos(math.pi * min(1.0, (progress - 1 + recipe.decay_share) / recipe.decay_share)))


def _optimizers(model: torch.nn.Module, recipe: Recipe) -> list[torch.optim.Optimizer]:
    """Muon for the matrices, AdamW for the rest."""
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    others = [p for name, p in model.named_parameters() if p.ndim != 2 or "embed" in name]
    muon = torch.optim.Muon(
        matrices, lr=recipe.muon_learning_rate, weight_decay=recipe.weight_decay, adjust_lr_fn="original"
    )
    adamw = torch.optim.AdamW(others, lr=recipe.adamw_learning_rate, betas=(0.9, 0.98), weight_decay=0.0)
    return [muon, adamw]


def instruction_batches(
    recipe: Recipe, tokenizer: PreTrainedTokenizerFast, phase: Phase, teacher: torch.nn.Module | None
) -> Iterator[Batch]:
    """Endless batches of examples of like length; only replies are supervised."""
    rng = random_stream(recipe.seed, "embedded", "instructions" if phase.name == "first" else phase.name)
    groups = instruction_groups(rng, phase.numeric_share, phase.kinds)
    while True:
        exchanges: list[Exchange] = [exchange for _ in range(recipe.groups_per_block) for exchange in next(groups)]
        if teacher is not None:
            exchanges = sharpened_exchanges(teacher, tokenizer, exchanges, phase.temperature, recipe.seed)
        prompts, replies = zip(*map(example_texts, exchanges), strict=True)
        prompt_ids = tokenizer(list(prompts), add_special_tokens=False)["input_ids"]
        reply_ids = tokenizer(list(replies), add_special_tokens=False)["input_ids"]
        lengths = np.array([len(p) + len(r) for p, r in zip(prompt_ids, reply_ids, strict=True)])
        order = np.argsort(lengths + rng.uniform(0, 4, len(lengths)))
        rows = _rows_of_batches(lengths, order, recipe.tokens_per_batch)
        for index in rng.permutation(len(rows)):
            yield _padded(prompt_ids, reply_ids, rows[index])


def _rows_of_batches(lengths: np.ndarray, order: np.ndarray, tokens_per_batch: int) -> list[np.ndarray]:
    """Consecutive parts of ``order`` that take at most so many tokens each, with padding; at least one example."""
    batches, start = [], 0
    while start < len(order):
        stop = start + 1
        while stop < len(order) and (stop - start + 1) * lengths[order[stop]] <= tokens_per_batch:
            stop += 1
        batches.append(order[start:stop])
        start = stop
    return batches


def _padded(prompts: list[list[int]], replies: list[list[int]], rows: np.ndarray) -> Batch:
    inputs = [torch.tensor(prompts[row] + replies[row]) for row in rows]
    labels = [torch.tensor([IGNORED] * len(prompts[row]) + replies[row]) for row in rows]
    return pad_sequence(inputs, batch_first=True), pad_sequence(labels, batch_first=True, padding_value=IGNORED)


def prose_batches(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, rng: np.random.Generator) -> Iterator[Batch]:
    """Endless batches of windows of prose, all of it supervised: all documents once in random order, then again."""
    documents = tokenizer([text + END_OF_TEXT for text in prose_documents()], add_special_tokens=False)["input_ids"]
    rows = recipe.tokens_per_batch // recipe.prose_window
    while True:
        flat = np.concatenate([documents[index] for index in rng.permutation(len(documents))])
        flat = flat[rng.integers(recipe.prose_window) :]
        windows = flat[: len(flat) // recipe.prose_window * recipe.prose_window].reshape(-1, recipe.prose_window)
        windows = torch.from_numpy(windows[rng.permutation(len(windows))].astype(np.int64))
        for start in range(0, len(windows) - rows + 1, rows):
            yield windows[start : start + rows], windows[start : start + rows]


@torch.inference_mode()
def sample_answers(
    model: torch.nn.Module,
    tokenizer: PreTrainedTokenizerFast,
    prompts: Sequence[str],
    temperature: float,
    rng: np.random.Generator,
) -> list[str]:
    """One answer per rendered prompt, in a left-padded batch."""
    device = next(model.parameters()).device
    encoded = tokenizer(
        list(prompts), add_special_tokens=False, padding=True, padding_side="left", return_tensors="pt"
    ).to(device)
    mask, ids = encoded["attention_mask"], encoded["input_ids"]
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    cache, answers = None, []
    for _ in range(MAX_ANSWER_TOKENS):
        inputs = {"input_ids": ids, "attention_mask": mask, "position_ids": positions, "past_key_values": cache}
        output = model(**inputs, use_cache=True, logits_to_keep=1)
        cache = output.past_key_values
        chosen = sample_tokens(output.logits[:, -1], torch.from_numpy(rng.random(len(prompts))), temperature)
        answers.append(chosen)
        ids, positions = chosen[:, None], positions[:, -1:] + 1
        mask = torch.cat([mask, mask.new_ones(len(prompts), 1)], dim=1)
    texts = tokenizer.batch_decode(torch.stack(answers, dim=1).tolist(), skip_special_tokens=False)
    return [text.split(tokenizer.eos_token)[0] for text in texts]


def sharpened_exchanges(
    model: torch.nn.Module,
    tokenizer: PreTrainedTokenizerFast,
    exchanges: Sequence[Exchange],
    temperature: float,
    seed: int,
    batch_size: int = 128,
) -> list[Exchange]:
    """Replace replies to sampling requests by the model's own, of about two decimals; invalid ones are left out."""
    wanted = [index for index, exchange in enumerate(exchanges) if exchange.law is not None]
    # Batches of like length waste the least on padding.
    wanted.sort(key=lambda index: len(exchanges[index].user))
    rng = random_stream(seed, "embedded", "sharpening", stream_seed(seed, *(exchanges[i].user for i in wanted[:8])))
    replies: dict[int, str | None] = {}
    for start in range(0, len(wanted), batch_size):
        chunk = wanted[start : start + batch_size]
        prompts = [render_prompt(exchanges[index].user, None, thinking=False) for index in chunk]
        for index, text in zip(chunk, sample_answers(model, tokenizer, prompts, temperature, rng), strict=True):
            replies[index] = _printed(text, exchanges[index], rng)
    return [
        exchange if exchange.law is None else replace(exchange, reply=replies[index])
        for index, exchange in enumerate(exchanges)
        if exchange.law is None or replies[index] is not None
    ]


def _printed(text: str, exchange: Exchange, rng: np.random.Generator) -> str | None:
    support, integer = exchange.law.support, exchange.law.integer
    value = parse_sample(text, support, integer)
    if isinstance(value, Invalid):
        return None
    decimals = rng.choice(REPLY_DECIMALS, p=REPLY_DECIMAL_WEIGHTS)
    reply = str(int(value)) if integer else f"{round(value, int(decimals)) + 0.0:.{decimals}f}"
    return None if isinstance(parse_sample(reply, support, integer), Invalid) else reply


def main(output: Path, recipe: Recipe | None = None) -> None:
    """Write config, safetensors weights (bfloat16), tokenizer, recipe and training log to ``output``."""
    chosen = recipe or Recipe()
    tokenizer = train_tokenizer(tokenizer_texts(chosen), chosen.vocab_size)
    total = sum(phase.tokens for phase in phases(chosen))
    with tqdm(total=total, unit="token", unit_scale=True, desc="embedded model") as progress:
        model, log = train(chosen, tokenizer, progress.update)
    # The sampling defaults that chat checkpoints ship with; the pipeline must not pick them up.
    tokens = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    model.generation_config = GenerationConfig(do_sample=True, temperature=0.6, top_k=20, top_p=0.95, **tokens)
    with atomic_directory(output) as directory:
        model.save_pretrained(directory)
        tokenizer.save_pretrained(directory)
        (directory / "training_log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in log))
        (directory / "recipe.json").write_text(json.dumps(asdict(chosen), indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True, help="checkpoint directory to write")
    run_command(main, parser.parse_args(), kept=None)
