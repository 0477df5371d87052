"""Negative log-likelihood of documents under a model, many windows per forward pass.

Windows of all documents of a chunk are sorted by length and go through the model in batches of a token
budget. Only the hidden states that score a token reach the output head, a few at a time, so memory
grows neither with the vocabulary times the length nor with the corpus. A document's figures do not
depend on what it is batched with, up to rounding.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from pipeline.core.retention.windows import Window, scoring_windows
from pipeline.engines.loading.memory import MemoryLimit
from pipeline.engines.loading.model import position_logits
from pipeline.engines.scoring.length_buckets import length_buckets
from pipeline.errors import ModelError

LOGITS_PER_CALL, LOGITS_PER_CALL_ON_CPU = 1 << 26, 1 << 21
"""Logits held at a time: 256 MiB in float32, for a product that keeps a GPU busy; on a CPU 8 MiB, which its cache
holds."""


@dataclass(frozen=True)
class DocumentScore:
    """One document's figures.

    Attributes:
        nll_nats: Sum of the negative log-likelihoods of the scored tokens.
        num_tokens: Tokens scored: all, or all but the first without a BOS token.
        num_bytes: UTF-8 bytes of the whole document.
    """

    nll_nats: float
    num_tokens: int
    num_bytes: int


class PerplexityScorer:
    """Scores documents with one model in evaluation mode, with or without adapter.

    Hidden states and logits are in the model's dtype; log-probabilities are normalised over the full
    vocabulary in float32 and summed in float64. The text of a special token that a document contains is
    read as text.

    Args:
        model: Causal language model, or a PeftModel of one.
        tokenizer: Its tokenizer.
        window: Tokens per window, a BOS token among them.
        stride: Tokens between the starts of windows (``pipeline.core.retention.windows``).
        tokens_per_pass: Tokens per forward pass at most, padding included.

    Raises:
        ValueError: Window and stride do not fit.
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
        self._logits_at, self._memory = position_logits(model), MemoryLimit()
        self._device = next(self._logits_at.model.parameters()).device
        logits = LOGITS_PER_CALL_ON_CPU if self._device.type == "cpu" else LOGITS_PER_CALL
        self._positions_per_call = max(1, logits // self._logits_at.vocabulary)
        if not self._logits_at.gathers_hidden:
            # Then all logits of a pass are there at once.
            self.tokens_per_pass = min(tokens_per_pass, self._positions_per_call)

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
        """Scores of documents, in their order.

        Args:
            texts: Documents.
            bos: Token before every window, or None.

        Raises:
            ModelError: A document's NLL is not finite, or the GPU's memory is too small for a single window.
        """
        documents = self.encode(texts)
        jobs = [
            (index, window)
            for index, ids in enumerate(documents)
            for window in scoring_windows(len(ids), self.window, self.stride, bos is not None)
        ]
        sums, counts = np.zeros(len(documents)), np.zeros(len(documents), dtype=np.int64)
        lengths = [window.stop - window.start - 1 + (bos is not None) for _, window in jobs]

        def run(batch: list[int]) -> np.ndarray:
            return self._losses([(documents[jobs[place][0]], jobs[place][1]) for place in batch], bos)

        for batch, losses in self._memory.run(length_buckets(lengths, self.tokens_per_pass), lengths, run):
            members = [jobs[place] for place in batch]
            sizes = [window.stop - window.scored for _, window in members]
            for (index, _), size, loss in zip(members, sizes, np.split(losses, np.cumsum(sizes)[:-1]), strict=True):
                sums[index] += loss.sum()
                counts[index] += size
        if not np.isfinite(sums).all():
            text = texts[int(np.flatnonzero(~np.isfinite(sums))[0])]
            raise ModelError(f"the model gives no finite likelihood to the document that starts with {text[:80]!r}")
        num_bytes = [len(text.encode()) for text in texts]
        return [DocumentScore(*row) for row in zip(sums.tolist(), counts.tolist(), num_bytes, strict=True)]

    @torch.inference_mode()
    def _losses(self, windows: Sequence[tuple[list[int], Window]], bos: int | None) -> np.ndarray:
        """float64[P] negative log-likelihoods of the windows' scored tokens, window after window.

        The last token of a window predicts nothing that is scored, so it is not an input. Padding is on the
        right, where attention does not look, and needs no mask.
        """
        prefix = [] if bos is None else [bos]
        inputs = [prefix + ids[item.start : item.stop - 1] for ids, item in windows]
        padded = np.zeros((len(inputs), max(map(len, inputs))), dtype=np.int64)
        for row, tokens in zip(padded, inputs, strict=True):
            row[: len(tokens)] = tokens
        # The state that predicts token t of a window is that of token t - 1.
        columns = [np.arange(item.scored, item.stop) - item.start - 1 + len(prefix) for _, item in windows]
        rows = np.repeat(np.arange(len(windows)), [len(item) for item in columns])
        targets = [token for ids, item in windows for token in ids[item.scored : item.stop]]
        batch, rows, columns, targets = (
            torch.from_numpy(array).to(self._device)
            for array in (padded, rows, np.concatenate(columns), np.array(targets, dtype=np.int64))
        )
        states = self._logits_at.states(batch, torch.ones_like(batch), rows, columns)
        return self._head_losses(states, targets)

    def _head_losses(self, states: torch.Tensor, targets: torch.Tensor) -> np.ndarray:
        """float64[P] losses of P positions; logits are there for as many at a time as LOGITS_PER_CALL has room for."""
        size, losses = self._positions_per_call, []
        for part, wanted in zip(states.split(size), targets.split(size), strict=True):
            logits = self._logits_at.head(part).float()
            losses.append(torch.nn.functional.cross_entropy(logits, wanted, reduction="none"))
        # One transfer per pass, so that a GPU need not wait between the parts.
        return torch.cat(losses).double().cpu().numpy()
