"""Checks of a model before anything costly runs: what the tokenizer writes, and what adapters do to it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from transformers import PreTrainedTokenizerBase

from pipeline.config.models import ModelConfig
from pipeline.config.training import TrainConfig
from pipeline.core.random_streams import stream_seed
from pipeline.engines.loading import chat
from pipeline.engines.loading.model import add_lora, next_log_probabilities
from pipeline.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CANONICAL_NUMBERS = ("0", "7", "-12", "176", "0.00015", "-3.14159", "12345.67890")
# Standard deviation of the entries of B in the trial adapter (A has PEFT's own random start).
TRIAL_ADAPTER_SCALE = 0.05
# An adapter that moves log-probabilities by less than this (nats, root mean square) is not in effect.
LEAST_EFFECT_NATS = 1e-3


def check_turn_end(tokenizer: PreTrainedTokenizerBase, template_arguments: Mapping[str, Any], terminator: int) -> None:
    """Raise ModelError where the chat template, if any, does not end a turn with the answer terminator."""
    if tokenizer.chat_template is None:
        return
    answer = "0.123454321"
    turns = [{"role": "user", "content": "A number."}, {"role": "assistant", "content": answer}]
    text = chat.apply_template(tokenizer, turns, template_arguments, add_generation_prompt=False)
    if answer not in text:
        raise ModelError(f"the chat template of {tokenizer.name_or_path!r} leaves out what the assistant said")
    behind = tokenizer(text.rsplit(answer, 1)[1], add_special_tokens=False)["input_ids"]
    if behind[:1] != [terminator]:
        end = tokenizer.convert_ids_to_tokens(behind[0]) if behind else "nothing"
        raise ModelError(
            f"the chat template of {tokenizer.name_or_path!r} ends a turn with {end!r}, but the answer terminator is "
            f"{tokenizer.convert_ids_to_tokens(terminator)!r}; set `terminator` of the model to the token that ends "
            "its turn"
        )


def check_numbers(tokenizer: PreTrainedTokenizerBase, terminator: int) -> None:
    """Raise ModelError where a canonical number does not survive the tokenizer."""
    special = {*tokenizer.all_special_ids, terminator}
    for number, ids in zip(CANONICAL_NUMBERS, chat.encode_answers(tokenizer, CANONICAL_NUMBERS), strict=True):
        if tokenizer.decode(ids) != number or special & set(ids):
            raise ModelError(
                f"{tokenizer.name_or_path}: the number {number!r} is encoded as {ids}, which does not decode to it"
            )


@torch.no_grad()
def trial_adapter(model: "PreTrainedModel", config: ModelConfig, train: TrainConfig, seed: int) -> torch.nn.Module:
    """``model`` with an adapter in evaluation mode whose B, which starts at zero and so does nothing, is random."""
    # The start of A is drawn from torch's own stream, which is left as it was.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_seed(seed, "preflight", "lora"))
        adapted = add_lora(model, config, rank=train.lora_rank, alpha=train.lora_alpha, dropout=0.0).eval()
    generator = torch.Generator().manual_seed(stream_seed(seed, "preflight", "adapter"))
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * TRIAL_ADAPTER_SCALE)
    return adapted


def check_adapter(
    model: "PreTrainedModel", config: ModelConfig, train: TrainConfig, prompt_ids: Sequence[int], seed: int
) -> dict[str, float]:
    """Root mean square over the vocabulary of what a random adapter, which stays, changes. Raises ModelError."""
    base = next_log_probabilities(model, [prompt_ids])
    adapted = trial_adapter(model, config, train, seed)
    effect = (next_log_probabilities(adapted, [prompt_ids]) - base).square().mean().sqrt().item()
    if not effect >= LEAST_EFFECT_NATS:
        raise ModelError(
            f"{config.checkpoint}: a random adapter on {', '.join(config.lora_target_modules)} changes the "
            f"log-probabilities by {effect:.2g} nats; check lora_target_modules"
        )
    weights = sum(parameter.numel() for name, parameter in adapted.named_parameters() if "lora_" in name)
    return {"adapter_weights": weights, "effect_nats": effect}
