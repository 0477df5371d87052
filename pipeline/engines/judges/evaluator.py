"""Models that score texts: what pins them, how they are loaded, and how encoded texts are run in batches."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from pipeline.artifacts.storage import sha256_file
from pipeline.core.language.novelty import Pair
from pipeline.engines.loading.conditioned_model import opened_once
from pipeline.engines.loading.memory import length_buckets
from pipeline.errors import ModelError, first_line
from pipeline.sources.repository import pinned_commit

if TYPE_CHECKING:
    from transformers import BatchEncoding, PreTrainedModel, PreTrainedTokenizerBase


def pinned(checkpoint: str, revision: str | None) -> dict[str, Any]:
    """A checkpoint's content: {"files": SHA-256 by name}, or a hub repository with its commit. Raises ModelError."""
    directory = Path(checkpoint)
    if directory.is_dir():
        files = sorted(path for path in directory.iterdir() if path.is_file() and path.suffix != ".md")
        return {"files": {path.name: sha256_file(path) for path in files}}
    if checkpoint.startswith(("/", "./", "../", "models/")):
        raise ModelError(f"checkpoint directory {checkpoint} does not exist")
    return {"repository": checkpoint, "revision": pinned_commit(checkpoint, revision, "model")}


def load_evaluator(
    checkpoint: str, revision: str | None, dtype: str, device: str | None, *, classifies: bool = True, **options: Any
) -> "PreTrainedModel":
    """A sequence classifier, or else the encoder, in evaluation mode; no pickled objects. Raises ModelError."""
    from transformers import AutoModel, AutoModelForSequenceClassification

    from pipeline.engines.loading.model import default_device, load_pretrained

    # Else a repository without safetensors is sent to a converter on the hub in the background.
    os.environ.setdefault("DISABLE_SAFETENSORS_CONVERSION", "1")
    loader = AutoModelForSequenceClassification if classifies else AutoModel
    kind = "sequence classifier" if classifies else "embedding model"

    def load() -> "PreTrainedModel":
        # The pooler of an encoder stands behind the last hidden states.
        unused = "" if classifies else "pooler."
        model = load_pretrained(loader, kind, checkpoint, revision, dtype, unused, weights_only=True, **options)
        return model.to(device or default_device()).eval()

    return opened_once((kind, checkpoint, revision, dtype, device, *options.items()), load)


def load_evaluator_tokenizer(
    checkpoint: str, revision: str | None, model: "PreTrainedModel"
) -> "PreTrainedTokenizerBase":
    """The tokenizer of a model; remote code is never run. Raises ModelError, also where the model lacks its tokens."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(checkpoint, revision=revision, trust_remote_code=False)
    except (OSError, ValueError, ImportError) as error:
        hint = ""
        if Path(checkpoint, "spm.model").exists() or "tiktoken" in str(error):
            hint = "; a tokenizer with a SentencePiece model only needs the packages sentencepiece and protobuf"
        raise ModelError(f"cannot load the tokenizer of {checkpoint}: {first_line(error)}{hint}") from None
    rows = model.get_input_embeddings().weight.shape[0]
    if len(tokenizer) > rows:
        raise ModelError(f"the tokenizer of {checkpoint} has {len(tokenizer)} tokens, the model {rows}")
    return tokenizer


class PairScorer:
    """Gives pairs of texts a number: a judge of two answers, or a reward model of (request, response)."""

    def batches(self, pairs: Sequence[Pair]) -> Iterator[tuple[list[int], np.ndarray]]:
        """Yield indices and float64 scores of the pairs, each index once, as soon as a batch is done."""
        raise NotImplementedError

    def scores(self, pairs: Sequence[Pair]) -> np.ndarray:
        """float64[n] scores of n pairs."""
        scores = np.full(len(pairs), np.nan)
        for indices, values in self.batches(pairs):
            scores[indices] = values
        return scores


def rows_of(encoded: Mapping[str, list[list[int]]]) -> list[dict[str, list[int]]]:
    """What a tokenizer makes of several texts, one mapping for each text."""
    return [dict(zip(encoded, values, strict=True)) for values in zip(*encoded.values(), strict=True)]


@dataclass
class EncodedTexts:
    """A model in evaluation mode that is run on encoded texts, those of similar length together."""

    model: "PreTrainedModel"
    tokenizer: "PreTrainedTokenizerBase"
    max_tokens: int
    """Kept of each text."""
    tokens_per_pass: int
    """Tokens per forward pass, padding included."""

    def _inputs(self, rows: Sequence[Mapping[str, list[int]]]) -> "BatchEncoding":
        """Rows as right-padded int64[R, T] inputs with their attention mask."""
        return self.tokenizer.pad(rows, padding_side="right", return_tensors="pt").to(self.model.device)

    @torch.inference_mode()
    def _run(
        self, rows: Sequence[Mapping[str, list[int]]], compute: Callable[["BatchEncoding"], torch.Tensor]
    ) -> Iterator[tuple[list[int], np.ndarray]]:
        """Yield the indices of the rows of each pass, and float64 of what ``compute`` makes of its inputs."""
        for indices in length_buckets([len(row["input_ids"]) for row in rows], self.tokens_per_pass):
            yield indices, compute(self._inputs([rows[index] for index in indices])).double().cpu().numpy()
