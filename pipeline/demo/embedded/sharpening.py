"""Answers of a model to sampling requests, drawn at a low temperature and printed with few decimals."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast

from pipeline.core.prompts.number_answers import Invalid, parse_sample
from pipeline.core.random_streams import random_stream, stream_seed
from pipeline.core.sampling import sample_tokens
from pipeline.demo.embedded.instructions import Exchange
from pipeline.demo.embedded.tokenizer import render_prompt

MAX_ANSWER_TOKENS = 14
REPLY_DECIMALS = (1, 2, 3)
REPLY_DECIMAL_WEIGHTS = (0.08, 0.84, 0.08)


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
        output = model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
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
    """Replace the replies to sampling requests by the model's own, sharpened; others stay as they are.

    A number is rounded to about two decimals, as chat models print them. A request whose
    sharpened answer is not a valid sample of its law is left out.
    """
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
    rewritten = []
    for index, exchange in enumerate(exchanges):
        if exchange.law is None:
            rewritten.append(exchange)
        elif replies[index] is not None:
            rewritten.append(replace(exchange, reply=replies[index]))
    return rewritten


def _printed(text: str, exchange: Exchange, rng: np.random.Generator) -> str | None:
    support, integer = exchange.law.support, exchange.law.integer
    value = parse_sample(text, support, integer)
    if isinstance(value, Invalid):
        return None
    decimals = rng.choice(REPLY_DECIMALS, p=REPLY_DECIMAL_WEIGHTS)
    reply = str(int(value)) if integer else f"{round(value, int(decimals)) + 0.0:.{decimals}f}"
    return None if isinstance(parse_sample(reply, support, integer), Invalid) else reply
