"""The key-value cache of rows that are decoded together: written in place, with texts that end at the same slot."""

import sys
from collections.abc import Sequence

import torch
from transformers import Cache
from transformers.cache_utils import DynamicLayer

from pipeline.errors import ModelError


class SlotLayer(DynamicLayer):
    """One layer's keys and values [R, H, S, D] of rows whose texts, of ``width`` tokens at most, end before slot
    ``end``; a query sees its own token and ``reach`` earlier ones. What is in slots in front of a text is masked out.
    """

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, reach: int, end: int, width: int) -> None:
        super().__init__()
        self.keys, self.values, self.reach, self.end, self.width = keys, values, reach, end, width
        self.is_initialized, self.is_sliding = True, reach < sys.maxsize

    def get_seq_length(self) -> int:
        """Tokens of the longest text."""
        return self.width

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """How many keys ``update`` returns, and how many earlier ones it leaves out."""
        kept = min(self.width, self.reach)
        return kept + query_length, self.width - kept

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write one token of the first rows, [r, H, 1, D]; returns views of what its queries see."""
        rows, seen = len(key_states), slice(self.end - min(self.width, self.reach), self.end + 1)
        self.keys[:rows, :, self.end], self.values[:rows, :, self.end] = key_states[:, :, 0], value_states[:, :, 0]
        self.end, self.width = self.end + 1, self.width + 1
        return self.keys[:rows, :, seen], self.values[:rows, :, seen]

    def copied(self, rows: torch.Tensor, width: int) -> "SlotLayer":
        """Some rows, int64[n], with texts of at most ``width`` tokens; no slot is left, so copies may be shared."""
        kept = min(width, self.reach)
        own = slice(self.end - kept, self.end)
        return SlotLayer(self.keys[rows, :, own], self.values[rows, :, own], self.reach, kept, width)


def slot_layers(cache: Cache) -> list[SlotLayer]:
    """Layers of the cache that a model filled with a prompt. Raises ModelError where they have no slot per token."""
    if others := {type(layer).__name__ for layer in cache.layers} - {"DynamicLayer", "DynamicSlidingWindowLayer"}:
        raise ModelError(f"cannot sample from a model whose cache has a {min(others)}")
    reaches = [layer.sliding_window - 1 if layer.is_sliding else sys.maxsize for layer in cache.layers]
    return [
        SlotLayer(layer.keys, layer.values, reach, layer.keys.shape[2], layer.get_seq_length())
        for layer, reach in zip(cache.layers, reaches, strict=True)
    ]


def place_rows(
    parts: Sequence[list[SlotLayer]], sources: Sequence[torch.Tensor], width: int, most_rows: int
) -> tuple[Cache, torch.Tensor]:
    """Rows ``sources``, ascending int64[n] of each part, as one cache that can take a token; ``width`` is the longest
    text's. Returns it and the row of each, int64[sum of n]; the lists of layers are emptied.

    Where the first part has room, its rows stay, and copies and other parts' rows take the place of those not named.
    """
    origins, first, layers = torch.cat(list(sources)), sources[0], []
    stays = torch.zeros_like(origins, dtype=torch.bool)
    stays[: len(first)] = (first.diff(prepend=first.new_tensor([-1])) > 0) & (first < len(origins))
    free = torch.ones_like(stays)
    free[origins[stays]] = False
    rows = origins.masked_scatter(~stays, free.nonzero())
    moves = list(zip(sources, rows.split([len(own) for own in sources]), strict=True))
    changes = [tuple(own[~stays[: len(first)]] for own in moves[0]), *moves[1:]]
    while parts[0]:
        held = [part.pop(0) for part in parts]
        base, kept = held[0], min(width, held[0].reach)
        fits = len(rows) <= len(base.keys) and kept <= base.end < base.keys.shape[2]
        end, states = base.end if fits else kept, {"keys": base.keys, "values": base.values}
        for name, old in states.items():
            if not fits:
                size = min(len(rows) + len(rows) // 4, most_rows), old.shape[1], kept + kept // 4 + 16, old.shape[3]
                states[name] = old.new_zeros(size)
            for layer, (own, to) in zip(held, changes if fits else moves, strict=True):
                count = min(kept, layer.end)
                states[name][to, :, end - count : end] = getattr(layer, name)[own, :, layer.end - count : layer.end]
        layers.append(SlotLayer(**states, reach=base.reach, end=end, width=width))
    return Cache(layers=layers), rows
