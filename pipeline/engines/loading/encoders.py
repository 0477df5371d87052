"""How a checkpoint is asked: from requests to token ids."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pipeline.config.models import ModelConfig


def message_encoder(tokenizer: Any, config: ModelConfig) -> Callable[[Sequence[Mapping[str, str]], bool], list[int]]:
    """``ConditionedModel.encode_messages`` of a tokenizer."""
    from pipeline.engines.loading import chat

    options = config.chat

    def encode_messages(messages: Sequence[Mapping[str, str]], reasons: bool) -> list[int]:
        arguments = options.reasoning.template_arguments if reasons else options.template_arguments
        prefix = "" if reasons else options.answer_prefix
        return chat.encode_messages(tokenizer, messages, arguments, prefix, options.add_special_tokens)

    return encode_messages


def request_encoder(tokenizer: Any, config: ModelConfig) -> Callable[[str], list[int]]:
    """``ConditionedModel.encode`` of a tokenizer."""
    encode_messages = message_encoder(tokenizer, config)
    return lambda text: encode_messages([{"role": "user", "content": text}], False)
