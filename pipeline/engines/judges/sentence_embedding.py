"""Embeddings of texts by a transformer: its last hidden states, averaged over tokens.

Any encoder that sentence-transformers pools by the mean (all-MiniLM-L6-v2, all-mpnet-base-v2, ...).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from pipeline.config.evaluation import SimilarityConfig
from pipeline.engines.judges.sequence_classifier import (
    check_vocabulary,
    load_evaluator,
    load_evaluator_tokenizer,
    padded_inputs,
    pinned,
)
from pipeline.engines.loading.memory import MemoryLimit
from pipeline.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class SentenceEmbedder:
    """Mean-pooled last hidden states of an encoder.

    Args:
        model: In evaluation mode.
        tokenizer: Its tokenizer, with a padding token.
        max_tokens: Tokens kept of each text.
        tokens_per_pass: Tokens per forward pass, padding included.
    """

    def __init__(
        self, model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", *, max_tokens: int, tokens_per_pass: int
    ):
        self.model, self.tokenizer = model, tokenizer
        self.max_tokens, self.tokens_per_pass = max_tokens, tokens_per_pass
        self._memory = MemoryLimit()

    @torch.inference_mode()
    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """float64[n, d] of n texts, those of similar length together; zeros for an empty one. Raises ModelError."""
        places = [place for place, text in enumerate(texts) if text.strip()]
        vectors = np.zeros((len(texts), self.model.config.hidden_size))
        if not places:
            return vectors
        encoded = self.tokenizer([texts[place] for place in places], truncation=True, max_length=self.max_tokens)

        def run(indices: list[int]) -> np.ndarray:
            inputs = padded_inputs(self.tokenizer, encoded, indices).to(self.model.device)
            hidden = self.model(**inputs).last_hidden_state.float()
            own = inputs["attention_mask"].unsqueeze(-1)
            return ((hidden * own).sum(dim=1) / own.sum(dim=1)).double().cpu().numpy()

        for indices, found in self._memory.run(list(map(len, encoded["input_ids"])), self.tokens_per_pass, run):
            vectors[[places[index] for index in indices]] = found
        if not np.isfinite(vectors).all():
            raise ModelError("the embedding of a text is not finite")
        return vectors


def embedding_identity(config: SimilarityConfig) -> dict[str, Any]:
    """All that an embedding depends on beside the texts; a hub repository is pinned to a commit. Raises ModelError."""
    checkpoint = pinned(str(config.checkpoint), config.revision)
    return {"kind": config.kind, "checkpoint": checkpoint, "dtype": config.dtype, "max_tokens": config.max_tokens}


def open_embedder(config: SimilarityConfig, identity: dict[str, Any], device: str | None = None) -> SentenceEmbedder:
    """Load what ``identity`` (of ``embedding_identity``) pins.

    Raises:
        ModelError: It cannot be loaded, or its tokenizer has no padding token.
    """
    from transformers import AutoModel

    checkpoint, revision = str(config.checkpoint), identity["checkpoint"].get("revision")
    tokenizer = load_evaluator_tokenizer(checkpoint, revision)
    if tokenizer.pad_token_id is None:
        raise ModelError(f"the tokenizer {checkpoint} has no pad_token")
    # A pooler stands behind the last hidden states.
    model = load_evaluator(AutoModel, "embedding model", checkpoint, revision, config.dtype, device, unused="pooler.")
    check_vocabulary(model, tokenizer, checkpoint)
    return SentenceEmbedder(model, tokenizer, max_tokens=config.max_tokens, tokens_per_pass=config.tokens_per_pass)
