"""Keys and values of rows that are decoded together: prompts, which rows share, and the tokens behind them."""

import contextlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import torch
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence
from transformers import AttentionInterface, Cache
from transformers.cache_utils import DynamicLayer

from pipeline.engines.loading.model import causal_lm
from pipeline.errors import ModelError

SHARED_PROMPTS = "shared_prompts"  # the name under which transformers knows ``_attend``


@dataclass(frozen=True)
class Prompts:
    """What G prompts of ``lengths`` int64[G] tokens left in each layer: keys and values [G, H, P, D], which end with a
    prompt's last token, and how many tokens before its own a query sees."""

    layers: list[tuple[torch.Tensor, torch.Tensor, int]]
    lengths: torch.Tensor

    @classmethod
    def of_cache(cls, cache: Cache) -> "Prompts":
        """Those of the cache that a model filled. Raises ModelError where its layers have no key for each token."""
        if others := {type(layer).__name__ for layer in cache.layers} - {"DynamicLayer", "DynamicSlidingWindowLayer"}:
            raise ModelError(f"cannot sample from a model whose cache has a {min(others)}")
        reaches = [layer.sliding_window - 1 if layer.is_sliding else sys.maxsize for layer in cache.layers]
        layers = [(layer.keys, layer.values, reach) for layer, reach in zip(cache.layers, reaches, strict=True)]
        return cls(layers, torch.tensor([cache.get_seq_length()], device=cache.layers[0].keys.device))

    def slots(self) -> list["SlotLayer"]:
        """Those of a row that has no token behind its prompt yet."""
        return [SlotLayer(keys[:1, :, :0], values[:1, :, :0], reach, 0, 0) for keys, values, reach in self.layers]

    @classmethod
    def joined(cls, parts: Sequence["Prompts"], used: Sequence[torch.Tensor]) -> tuple["Prompts", torch.Tensor]:
        """One of several; of each only those ``used``, int64[n]. Returns it, and where the used ones are in it."""
        if len(parts) == 1:
            return parts[0], used[0]
        kept = [own.unique(return_inverse=True) for own in used]
        above = accumulate((len(own) for own, _ in kept), initial=0)
        places = torch.cat([place + start for (_, place), start in zip(kept, above, strict=False)])

        def stacked(states: Iterable[torch.Tensor], longest: int) -> torch.Tensor:
            own = [each[rows] for each, (rows, _) in zip(states, kept, strict=True)]
            return torch.cat([pad(each, (0, 0, longest - each.shape[2], 0)) for each in own])

        layers = []
        for held in zip(*(part.layers for part in parts), strict=True):
            keys, values, reaches = zip(*held, strict=True)
            longest = max(each.shape[2] for each in keys)
            layers.append((stacked(keys, longest), stacked(values, longest), reaches[0]))
        lengths = torch.cat([part.lengths[rows] for part, (rows, _) in zip(parts, kept, strict=True)])
        return cls(layers, lengths), places


@dataclass
class SharedPrompts:
    """One step of R rows with a query each, ``own`` int64[R] tokens behind the prompt ``of`` int64[R]: what each sees,
    and how the queries behind one prompt become one matrix."""

    prompts: Prompts
    of: torch.Tensor
    own: torch.Tensor
    _visible: dict[int, torch.Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        counts, order = self.of.bincount(minlength=len(self.prompts.lengths)), self.of.argsort()
        # Prompts with fewer rows than another repeat row 0, whose results there are not read.
        self._rows = pad_sequence(order.split(counts.tolist()), batch_first=True)
        taken = torch.arange(self._rows.shape[1], device=order.device) < counts[:, None]
        self._places = taken.flatten().nonzero()[order.argsort(), 0]

    def by_prompt(self, values: torch.Tensor) -> torch.Tensor:
        """[R, H, r, d] to [G, H, n r, d] for at most n rows of a prompt."""
        return values[self._rows].transpose(1, 2).flatten(2, 3)

    def by_row(self, values: torch.Tensor) -> torch.Tensor:
        """The way back."""
        return values.unflatten(2, (self._rows.shape[1], -1)).transpose(1, 2).flatten(0, 1)[self._places]

    def visible(self, size: int, slots: int, reach: int) -> torch.Tensor:
        """bool[R, 1, 1, size + slots]: what a row sees of its prompt's last ``size`` tokens and of the last slots."""
        if reach not in self._visible:
            lengths = self.prompts.lengths[self.of][:, None]
            query = lengths + self.own[:, None]
            before = lengths - size + torch.arange(size, device=query.device)
            behind = query - slots + 1 + torch.arange(slots, device=query.device)
            seen = torch.cat([before >= 0, behind >= lengths], dim=1)
            self._visible[reach] = (seen & (query - torch.cat([before, behind], dim=1) <= reach))[:, None, None]
        return self._visible[reach]


def _weights(
    scores: torch.Tensor,
    visible: torch.Tensor,
    instead_of: str,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **options: Any,
) -> torch.Tensor:
    """Softmax over the visible keys of scores [R, H, r, K], in float32, for r query heads of each of H key heads.

    ``instead_of`` is the attention that the model would have; ``softcap`` is Gemma 2's, which sdpa leaves out, and
    ``s_aux`` float[H r] are the sinks of GPT-OSS.
    """
    scores = scores.float()
    if softcap is not None and instead_of != "sdpa":
        scores = (scores / softcap).tanh() * softcap
    scores = scores.masked_fill(~visible, -torch.inf)
    if s_aux is None:
        return scores.softmax(dim=-1)
    sinks = s_aux.float().view(1, *scores.shape[1:3], 1).expand(*scores.shape[:-1], 1)
    return torch.cat([scores, sinks], dim=-1).softmax(dim=-1)[..., :-1]


def _attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: None,
    *,
    scaling: float,
    shared_prompts: SharedPrompts,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of float[R, Q, 1, D], a token each, to its prompt and slots."""
    of_prompts, values_of_prompts, reach = shared_prompts.prompts.layers[module.layer_idx]
    rows, heads, _, width = query.shape
    query = query.reshape(rows, key.shape[1], -1, width) * scaling
    before = shared_prompts.by_row(shared_prompts.by_prompt(query) @ of_prompts.mT)
    scores, size = torch.cat([before, query @ key.mT], dim=-1), before.shape[-1]
    visible = shared_prompts.visible(size, key.shape[2], reach)
    weights = _weights(scores, visible, **options).to(value.dtype)
    out = shared_prompts.by_row(shared_prompts.by_prompt(weights[..., :size]) @ values_of_prompts)
    out = out + weights[..., size:] @ value
    return out.reshape(rows, 1, heads, width), None


AttentionInterface.register(SHARED_PROMPTS, _attend)


@contextlib.contextmanager
def shared_attention(model: torch.nn.Module) -> Iterator[dict[str, str]]:
    """Forward passes take ``shared_prompts``, a cache of SlotLayers and what this yields. Raises ModelError where the
    model has no attention but its own."""
    # Older models do not ask transformers' registry for their attention.
    if not causal_lm(model)._supports_attention_backend:
        kind = type(causal_lm(model)).__name__
        raise ModelError(f"{kind} has an attention of its own, which cannot be sampled from here; set engine=vllm")
    config = causal_lm(model).config.get_text_config()
    before, config._attn_implementation = config._attn_implementation, SHARED_PROMPTS
    try:
        yield {"instead_of": before}
    finally:
        config._attn_implementation = before


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
