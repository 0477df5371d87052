"""Attention masks for token trees, in the form that a causal language model's forward takes.

A tree of completions is laid out behind its prompt as one row of tokens. Each node attends to the prompt, its ancestors
and itself, and has the position id of a sequence of its own, so its hidden state is that of the separate sequence.
"""

import numpy as np
import torch
from transformers import DynamicCache

from pipeline.core.tries.token_tree import TokenTree
from pipeline.engines.loading.model import causal_lm

# Two branches that end in the same token behind different ancestors, and a longer branch.
_PROBE_TREE = TokenTree(np.array([1, 2, 3, 3, 4], dtype=np.int32), np.array([-1, -1, 0, 1, 2], dtype=np.int32))
_PROBE_PROMPT = 6
# Longer than any text that is scored; masks of so many tokens squared fit into memory.
_LONGEST_WINDOW = 4096


def allowed_keys(prompt_length: int, ancestors: torch.Tensor) -> torch.Tensor:
    """bool[N, P + N]: the keys that each node may attend to, P of the prompt and, by bool[N, N], its ancestors'."""
    return torch.cat([ancestors.new_ones(len(ancestors), prompt_length), ancestors], dim=1)


def tree_attention_mask(
    model: torch.nn.Module,
    allowed: torch.Tensor,
    query_positions: torch.Tensor,
    key_positions: torch.Tensor | None = None,
) -> torch.Tensor | dict[str, torch.Tensor]:
    """The ``attention_mask`` argument of ``model`` for arbitrary visibility.

    Layers with a sliding window of w positions see a key only if its position is greater than the query's minus w, as
    in transformers' own masks.

    Args:
        model: Causal language model with "sdpa" or "eager" attention, or a PeftModel of one.
        allowed: bool[B, 1, Q, K], True where query q may attend to key k.
        query_positions: int64[B, Q], the position ids of the forward pass.
        key_positions: int64[B, K], of the cached keys and the new ones; None without a cache.

    Returns:
        [B, 1, Q, K], bool (True: attend) for sdpa, additive in the model's dtype for eager; one such tensor per layer
        type for a model that has several.

    Raises:
        ValueError: The attention implementation or a layer type has no such mask.
    """
    model = causal_lm(model)
    config = model.config.get_text_config()
    types, window = _layer_types(config)
    masks = {}
    for layer_type in sorted(types):
        visible = allowed
        if layer_type == "sliding_attention":
            keys = query_positions if key_positions is None else key_positions
            visible = allowed & (keys[:, None, None, :] > query_positions[:, None, :, None] - window)
        masks[layer_type] = _implementation_mask(model, config, visible)
    return masks if len(masks) > 1 else next(iter(masks.values()))


def sliding_window(model: torch.nn.Module) -> int | None:
    """Positions that a sliding-window layer of ``model`` sees; None if it has no such layer."""
    types, window = _layer_types(causal_lm(model).config.get_text_config())
    return window if "sliding_attention" in types else None


def _layer_types(config) -> tuple[set[str], int | None]:
    window = getattr(config, "sliding_window", None)
    # Models without a list of layer types (Mistral) slide in every layer if they have a window.
    default = ["full_attention" if window is None else "sliding_attention"]
    types = set(getattr(config, "layer_types", None) or default)
    if unknown := types - {"full_attention", "sliding_attention"}:
        raise ValueError(f"no tree attention for layers of type {', '.join(sorted(unknown))}")
    return types, window


def _implementation_mask(model: torch.nn.Module, config, visible: torch.Tensor) -> torch.Tensor:
    # A query without any key would turn into NaN and reach the gradients of the whole batch.
    visible = visible | ~visible.any(dim=-1, keepdim=True)
    implementation = config._attn_implementation
    if implementation == "sdpa":
        return visible
    if implementation == "eager":
        dtype = model.get_input_embeddings().weight.dtype
        return torch.zeros_like(visible, dtype=dtype).masked_fill_(~visible, torch.finfo(dtype).min)
    raise ValueError(f"no tree attention with the attention implementation {implementation!r}")


@torch.no_grad()
def supports_tree_attention(model: torch.nn.Module) -> bool:
    """Whether the model computes a packed tree as it computes the separate sequences.

    A small tree behind a short prompt is run packed without a cache, packed over the prompt's cache, and as plain
    sequences. The root mean square difference of the log-probabilities is compared with the difference that ancestors
    make: the tree has two nodes of the same token and depth whose parents differ. False also for attention that takes
    no such mask (flash_attention_2) and for layers that keep a state instead of keys.
    """
    model = causal_lm(model)
    was_training = model.training
    model.eval()
    try:
        return _probe(model)
    # Whatever a forward raises on a mask it does not know, the answer is no.
    except (ValueError, TypeError, RuntimeError, AttributeError, KeyError, IndexError, NotImplementedError):
        return False
    finally:
        model.train(was_training)


def _probe_length(window: int | None, positions: int | None) -> int:
    """Tokens of the probe's prompt: a quarter more than the window, so that a layer that looks past it is noticed.

    It is short where texts never fill the window: one of more than 4,096 tokens, or of about the model's own limit.
    """
    if window is None or window > _LONGEST_WINDOW:
        return _PROBE_PROMPT
    length = max(_PROBE_PROMPT, window + window // 4 + 2)
    return length if positions is None or length + len(_PROBE_TREE) <= positions else _PROBE_PROMPT


def _probe(model: torch.nn.Module) -> bool:
    device, config = model.get_input_embeddings().weight.device, model.config.get_text_config()
    one = torch.zeros(1, 1, dtype=torch.long, device=device)
    # Raises before anything is run where there is no such mask.
    tree_attention_mask(model, torch.ones_like(one, dtype=torch.bool)[None], one)
    length = _probe_length(sliding_window(model), getattr(config, "max_position_embeddings", None))
    # Distinct neighbours and tokens from all over the vocabulary, whatever its size.
    spread = torch.arange(length + 5, device=device) * 7919 % config.vocab_size
    prompt, nodes = spread[:length], spread[length:][torch.from_numpy(_PROBE_TREE.tokens).to(device).long()]
    ancestors = torch.from_numpy(_PROBE_TREE.ancestor_mask()).to(device)
    depths = torch.from_numpy(_PROBE_TREE.depths).to(device).long()
    positions = torch.cat([torch.arange(length, device=device), length - 1 + depths])[None]

    def logits(ids: torch.Tensor, kept: int = 1, **inputs) -> torch.Tensor:
        # Of the last positions alone: those of a prompt as long as a window would fill gigabytes.
        return model(input_ids=ids[None], logits_to_keep=kept, **inputs).logits[0].float().log_softmax(dim=-1)

    plain = [logits(torch.cat([prompt, nodes[ancestors[node]]])) for node in range(len(nodes))]
    expected = torch.cat(plain)
    allowed = allowed_keys(length, ancestors)
    causal = torch.ones(length, length + len(nodes), dtype=torch.bool, device=device).tril()
    mask = tree_attention_mask(model, torch.cat([causal, allowed])[None, None], positions)
    packed = logits(torch.cat([prompt, nodes]), len(nodes), attention_mask=mask, position_ids=positions)
    # A cache without configuration keeps every key in every layer, so one key axis serves all of them.
    cache, behind = DynamicCache(), positions[:, length:]
    logits(prompt, past_key_values=cache, use_cache=True)
    mask = tree_attention_mask(model, allowed[None, None], behind, positions)
    rest = {"attention_mask": mask, "position_ids": behind, "past_key_values": cache, "use_cache": True}
    cached = logits(nodes, len(nodes), **rest)
    effect = _rms(expected[2] - expected[3])
    tolerance = 0.01 if model.dtype == torch.float32 else 0.3
    return all(bool(_rms(found - expected) <= tolerance * effect) for found in (packed, cached))


def _rms(values: torch.Tensor) -> torch.Tensor:
    return values.square().mean().sqrt()
