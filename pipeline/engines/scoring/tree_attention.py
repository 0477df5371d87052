"""Attention masks for token trees, in the form that a causal language model's forward takes.

A tree of completions is laid out behind its prompt as one row of tokens. Each node attends to the prompt, its ancestors
and itself, and has the position id of a sequence of its own, so its hidden state is that of the separate sequence.
"""

import numpy as np
import torch
from torch.nn.attention.flex_attention import BlockMask, create_block_mask
from transformers import DynamicCache

from pipeline.core.tries.token_tree import TokenTree
from pipeline.engines.loading.model import causal_lm

# Two branches that end in the same token behind different ancestors, and a longer branch.
_PROBE_TREE = TokenTree(np.array([1, 2, 3, 3, 4], dtype=np.int32), np.array([-1, -1, 0, 1, 2], dtype=np.int32))
_PROBE_PROMPT = 6


def allowed_keys(prompt_length: int, ancestors: torch.Tensor) -> torch.Tensor:
    """bool[N, P + N]: the keys that each node may attend to, P of the prompt and, by bool[N, N], its ancestors'."""
    return torch.cat([ancestors.new_ones(len(ancestors), prompt_length), ancestors], dim=1)


def tree_attention_mask(
    model: torch.nn.Module,
    allowed: torch.Tensor,
    query_positions: torch.Tensor,
    key_positions: torch.Tensor | None = None,
) -> torch.Tensor | BlockMask | dict[str, torch.Tensor] | dict[str, BlockMask]:
    """The ``attention_mask`` argument of ``model`` (or a PeftModel) for arbitrary visibility.

    Layers with a sliding window of w positions see a key only if its position is greater than the query's minus w, as
    in transformers' own masks. ``allowed`` is bool[B, 1, Q, K], True where query q may attend to key k; positions are
    int64[B, Q], and int64[B, K] of the cached keys and the new ones, None without a cache.

    Returns [B, 1, Q, K], bool (True: attend) for sdpa, additive in the model's dtype for eager, blocks for
    flex_attention; one of them per layer type for a model that has several. Raises ValueError where the attention or a
    layer type has no such mask.
    """
    model = causal_lm(model)
    config = model.config.get_text_config()
    window = getattr(config, "sliding_window", None)
    # Models without a list of layer types (Mistral) slide in every layer if they have a window.
    default = ["full_attention" if window is None else "sliding_attention"]
    masks = {}
    for layer_type in sorted(set(getattr(config, "layer_types", None) or default)):
        visible = allowed
        if layer_type == "sliding_attention":
            keys = query_positions if key_positions is None else key_positions
            visible = allowed & (keys[:, None, None, :] > query_positions[:, None, :, None] - window)
        elif layer_type != "full_attention":
            raise ValueError(f"no tree attention for layers of type {layer_type}")
        # A query without any key would turn into NaN and reach the gradients of the whole batch.
        visible = visible | ~visible.any(dim=-1, keepdim=True)
        if config._attn_implementation == "eager":
            dtype = model.get_input_embeddings().weight.dtype
            visible = torch.zeros_like(visible, dtype=dtype).masked_fill_(~visible, torch.finfo(dtype).min)
        elif config._attn_implementation == "flex_attention":
            visible = _blocks(visible)
        elif config._attn_implementation != "sdpa":
            raise ValueError(f"no tree attention with the attention implementation {config._attn_implementation!r}")
        masks[layer_type] = visible
    return masks if len(masks) > 1 else next(iter(masks.values()))


def _blocks(visible: torch.Tensor) -> BlockMask:
    """FlexAttention's form of bool[B, 1, Q, K]: blocks in which nothing is visible are not computed."""
    rows, _, queries, keys = visible.shape
    return create_block_mask(lambda b, h, q, k: visible[b, 0, q, k], rows, None, queries, keys, visible.device)


@torch.no_grad()
def supports_tree_attention(model: torch.nn.Module) -> bool:
    """Whether the model computes a packed tree as it computes the separate sequences; False where it takes no mask."""
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


def _probe(model: torch.nn.Module) -> bool:
    device, length = model.get_input_embeddings().weight.device, _PROBE_PROMPT
    # Distinct neighbours and tokens from all over the vocabulary, whatever its size.
    spread = torch.arange(length + 5, device=device) * 7919 % model.config.get_text_config().vocab_size
    prompt, nodes = spread[:length], spread[length:][torch.from_numpy(_PROBE_TREE.tokens).to(device).long()]
    ancestors = torch.from_numpy(_PROBE_TREE.ancestor_mask()).to(device)
    depths = torch.from_numpy(_PROBE_TREE.depths).to(device).long()
    positions = torch.cat([torch.arange(length, device=device), length - 1 + depths])[None]

    def laws(ids: torch.Tensor, kept: int = 1, **inputs) -> torch.Tensor:
        return model(input_ids=ids[None], logits_to_keep=kept, **inputs).logits[0].float().log_softmax(dim=-1)

    allowed = allowed_keys(length, ancestors)
    causal = torch.ones(length, length + len(nodes), dtype=torch.bool, device=device).tril()
    mask = tree_attention_mask(model, torch.cat([causal, allowed])[None, None], positions)
    packed = laws(torch.cat([prompt, nodes]), len(nodes), attention_mask=mask, position_ids=positions)
    # A cache without configuration keeps every key in every layer, so one key axis serves all of them.
    cache, behind = DynamicCache(), positions[:, length:]
    laws(prompt, past_key_values=cache, use_cache=True)
    mask = tree_attention_mask(model, allowed[None, None], behind, positions)
    rest = {"attention_mask": mask, "position_ids": behind, "past_key_values": cache, "use_cache": True}
    cached = laws(nodes, len(nodes), **rest)
    expected = torch.cat([laws(torch.cat([prompt, nodes[ancestors[node]]])) for node in range(len(nodes))])
    tolerance = (0.01 if model.dtype == torch.float32 else 0.3) * _rms(expected[2] - expected[3])
    return all(bool(_rms(found - expected) <= tolerance) for found in (packed, cached))


def _rms(values: torch.Tensor) -> torch.Tensor:
    return values.square().mean().sqrt()
