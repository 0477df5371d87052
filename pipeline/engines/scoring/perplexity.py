"""Negative log-likelihood of documents under a model, windows of many documents per forward pass."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from pipeline.core.retention.windows import scoring_windows
from pipeline.engines.loading.model import position_logits
from pipeline.engines.scoring.token_scores import RowScorer
from pipeline.errors import ModelError


@dataclass(frozen=True)
class DocumentScore:
    """One document's negative log-likelihood over its scored tokens (all, or all but the first without a BOS token),
    their number, and the UTF-8 bytes of the whole document."""

    nll_nats: float
    num_tokens: int
    num_bytes: int


class PerplexityScorer:
    """Scores documents in windows of tokens (a BOS token among them), ``stride`` tokens between their starts.

    A special token in a document is read as text. Raises ValueError where window and stride do not fit.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        tokenizer: PreTrainedTokenizerBase,
        *,
        window: int,
        stride: int,
        tokens_per_pass: int,
    ):
        scoring_windows(0, window, stride, has_bos=False)
        self.tokenizer, self.window, self.stride, self.tokens_per_pass = tokenizer, window, stride, tokens_per_pass
        self._logits_at = position_logits(model)
        self._scorer = RowScorer(self._logits_at, tokens_per_pass)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of documents, no special tokens. Raises ModelError for one that the model has no embedding for."""
        if not texts:
            return []
        encoded = self.tokenizer(list(texts), add_special_tokens=False, split_special_tokens=True, verbose=False)
        rows = self._logits_at.model.get_input_embeddings().weight.shape[0]
        largest = max((max(ids) for ids in encoded["input_ids"] if ids), default=0)
        if largest >= rows:
            raise ModelError(f"the tokenizer gives token {largest}, but the model has {rows} embeddings")
        return encoded["input_ids"]

    def score(self, texts: Sequence[str], bos: int | None) -> list[DocumentScore]:
        """Scores in order, with a token ``bos`` or none before each window. Raises ModelError for a non-finite NLL."""
        documents, prefix = self.encode(texts), [] if bos is None else [bos]
        owners, rows, starts = [], [], []
        for index, ids in enumerate(documents):
            for window in scoring_windows(len(ids), self.window, self.stride, bos is not None):
                owners.append(index)
                rows.append([*prefix, *ids[window.start : window.stop]])
                starts.append(len(prefix) + window.scored - window.start)
        sums, counts = np.zeros(len(documents)), np.zeros(len(documents), dtype=np.int64)
        for scored in self._scorer.score(rows, starts):
            for place, scores in scored:
                sums[owners[place]] -= scores[:, 0].sum()
                counts[owners[place]] += len(scores)
        if not np.isfinite(sums).all():
            text = texts[int(np.flatnonzero(~np.isfinite(sums))[0])]
            raise ModelError(f"the model gives no finite likelihood to the document that starts with {text[:80]!r}")
        num_bytes = [len(text.encode()) for text in texts]
        return [DocumentScore(*row) for row in zip(sums.tolist(), counts.tolist(), num_bytes, strict=True)]
