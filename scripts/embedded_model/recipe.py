"""What decides the embedded model: sizes, mixture of text, settings of its training, random initial weights."""

import pydoc_data.topics
from dataclasses import dataclass
from itertools import islice

import torch
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from pipeline.core.random_streams import random_stream, stream_seed
from scripts.embedded_model.instructions import Exchange, instruction_groups
from scripts.embedded_model.tokenizer import THINK_END, THINK_START, TURN_END, render_prompt


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the embedded model's weights."""

    seed: int = 0
    vocab_size: int = 2048
    hidden_size: int = 256
    num_hidden_layers: int = 4
    intermediate_size: int = 768
    num_attention_heads: int = 8
    num_key_value_heads: int = 2
    head_dim: int = 32
    training_tokens: int = 26_000_000
    sharpening_tokens: int = 6_000_000
    sharpening_temperature: float = 0.4
    sharpening_rate_factor: float = 0.5
    request_tokens: int = 1_600_000
    request_rate_factor: float = 0.2
    request_numeric_share: float = 0.6
    list_tokens: int = 5_000_000
    list_rate_factor: float = 0.4
    list_numeric_share: float = 0.3
    tokens_per_batch: int = 8_192
    groups_per_block: int = 1_200
    prose_share: float = 0.12
    numeric_share: float = 0.78
    prose_window: int = 256
    muon_learning_rate: float = 0.02
    adamw_learning_rate: float = 3e-3
    weight_decay: float = 0.05
    warmup_share: float = 0.02
    decay_share: float = 0.5


def prose_documents() -> list[str]:
    """CPython's own help texts (``pydoc_data.topics``), in name order."""
    topics = pydoc_data.topics.topics
    return [topics[name].strip() for name in sorted(topics)]


def example_texts(exchange: Exchange) -> tuple[str, str]:
    """An exchange as the prompt's text and the supervised text behind it."""
    thinking = exchange.reasoning is not None
    prompt = render_prompt(exchange.user, exchange.system, thinking)
    reasoning = f"{THINK_START}\n{exchange.reasoning}\n{THINK_END}\n\n" if thinking else ""
    return prompt, f"{reasoning}{exchange.reply}{TURN_END}"


def tokenizer_texts(recipe: Recipe, groups: int = 1500) -> list[str]:
    """Prose and a sample of the instruction data, for training the tokenizer."""
    stream = instruction_groups(random_stream(recipe.seed, "embedded", "tokenizer"), recipe.numeric_share)
    exchanges = [exchange for group in islice(stream, groups) for exchange in group]
    return [*prose_documents(), *("".join(example_texts(exchange)) for exchange in exchanges)]


def make_model(recipe: Recipe, tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """A randomly initialised Qwen3 causal language model of the recipe's size (float32)."""
    torch.manual_seed(stream_seed(recipe.seed, "embedded", "weights"))
    sizes = (
        *("hidden_size", "num_hidden_layers", "intermediate_size", "num_attention_heads", "num_key_value_heads"),
        "head_dim",
    )
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        **{name: getattr(recipe, name) for name in sizes},
    )
    return Qwen3ForCausalLM(config)
