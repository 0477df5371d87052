"""Embeddings of texts by a transformer: its last hidden states, averaged over tokens.

Any encoder that sentence-transformers pools by the mean (all-MiniLM-L6-v2, all-mpnet-base-v2, ...).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from pipeline.config.evaluation import SimilarityConfig
from pipeline.engines.judges.pair_scorer import EncodedTexts, rows_of
from pipeline.engines.judges.sequence_classifier import (
    check_vocabulary,
    load_evaluator,
    load_evaluator_tokenizer,
    pinned,
)
from pipeline.errors import ModelError

if TYPE_CHECKING:
    from transformers import BatchEncoding


class SentenceEmbedder(EncodedTexts):
    """Mean-pooled last hidden states of an encoder."""

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """float64[n, d] of n texts, those of similar length together; zeros for an empty one. Raises ModelError."""
        places = [place for place, text in enumerate(texts) if text.strip()]
        vectors = np.zeros((len(texts), self.model.config.hidden_size))
        if not places:
            return vectors
        encoded = self.tokenizer([texts[place] for place in places], truncation=True, max_length=self.max_tokens)

        def pooled(inputs: "BatchEncoding") -> torch.Tensor:
            hidden, own = self.model(**inputs).last_hidden_state.float(), inputs["attention_mask"].unsqueeze(-1)
            return (hidden * own).sum(dim=1) / own.sum(dim=1)

        for indices, found in self._run(rows_of(encoded), pooled):
            vectors[[places[index] for index in indices]] = found
        if not np.isfinite(vectors).all():
            raise ModelError("the embedding of a text is not finite")
        return vectors


def embedding_identity(config: SimilarityConfig) -> dict[str, Any]:
    """All that an embedding depends on beside the texts; a hub repository is pinned to a commit. Raises ModelError."""
    checkpoint = pinned(str(config.checkpoint), config.revision)
    return {"kind": config.kind, "checkpoint": checkpoint, "dtype": config.dtype, "max_tokens": config.max_tokens}


def open_embedder(config: SimilarityConfig, identity: dict[str, Any], device: str | None = None) -> SentenceEmbedder:
    """Load what ``identity`` (of ``embedding_identity``) pins. Raises ModelError."""
    from transformers import AutoModel

    checkpoint, revision = str(config.checkpoint), identity["checkpoint"].get("revision")
    tokenizer = load_evaluator_tokenizer(checkpoint, revision)
    if tokenizer.pad_token_id is None:
        raise ModelError(f"the tokenizer {checkpoint} has no pad_token")
    # A pooler stands behind the last hidden states.
    model = load_evaluator(AutoModel, "embedding model", checkpoint, revision, config.dtype, device, unused="pooler.")
    check_vocabulary(model, tokenizer, checkpoint)
    return SentenceEmbedder(model, tokenizer, max_tokens=config.max_tokens, tokens_per_pass=config.tokens_per_pass)
