"""How many tokens the models of this process have read: every forward pass looks them up in the input embeddings."""

from typing import Any

import torch

_READ = [0]


def _count(module: torch.nn.Module, arguments: tuple[Any, ...]) -> None:
    """Forward pre-hook of the input embeddings."""
    if arguments:
        _READ[0] += arguments[0].numel()


def count_tokens(model: Any) -> Any:
    """The model itself, whose tokens are counted from now on, padding included."""
    model.get_input_embeddings().register_forward_pre_hook(_count)
    return model


def tokens_read() -> int:
    """Tokens that all counted models have read."""
    return _READ[0]
