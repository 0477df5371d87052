"""Rows of a model's cache, for texts that go on in different ways."""

import copy

import torch
from transformers import Cache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer


def extendable(cache: Cache) -> Cache:
    """A cache that may be extended while ``cache`` itself stays as it is."""
    # These layers replace their tensors and never write into them, so the copy may share them at first.
    shared = (DynamicLayer, DynamicSlidingWindowLayer)
    copied = copy.copy(cache)
    copied.layers = [copy.copy(layer) if type(layer) in shared else copy.deepcopy(layer) for layer in cache.layers]
    return copied


def select_rows(cache: Cache, rows: torch.Tensor) -> Cache:
    """A cache of the given rows, int64[R], with repeats allowed; ``cache`` itself stays as it is."""
    selected = extendable(cache)
    selected.reorder_cache(rows)
    return selected
