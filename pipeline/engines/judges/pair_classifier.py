"""NoveltyBench's pair classifier: a fine-tuned DeBERTa-v3 that says whether two responses say the same.

The input of a pair is [CLS] a [SEP] b [SEP], each response cut to its first 128 tokens and the
representative first; the similarity is the probability of class 1.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from pipeline.config.evaluation import ClassifierConfig
from pipeline.core.language.novelty_partition import Pair
from pipeline.engines.judges.pair_scorer import LexicalClassifier, PairScorer
from pipeline.engines.judges.sequence_classifier import (
    check_vocabulary,
    load_evaluator_tokenizer,
    load_sequence_classifier,
    pinned,
)
from pipeline.engines.loading.memory import MemoryLimit, right_padded
from pipeline.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class PairClassifier(PairScorer):
    """A sequence classifier of two classes over pairs of responses.

    Args:
        model: In evaluation mode.
        tokenizer: Has a classification, a separator and a padding token.
        max_tokens: Tokens kept of each response.
        tokens_per_pass: Tokens per forward pass, padding included.
    """

    def __init__(
        self, model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", *, max_tokens: int, tokens_per_pass: int
    ):
        self.model, self.tokenizer = model, tokenizer
        self.max_tokens, self.tokens_per_pass = max_tokens, tokens_per_pass
        self._memory = MemoryLimit()

    def encode(self, pairs: Sequence[Pair]) -> list[list[int]]:
        """Token ids of each pair."""
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        encoded = self.tokenizer(texts, add_special_tokens=False, truncation=True, max_length=self.max_tokens)
        ids = dict(zip(texts, encoded["input_ids"], strict=True))
        start, separator = self.tokenizer.cls_token_id, self.tokenizer.sep_token_id
        return [[start, *ids[first], separator, *ids[second], separator] for first, second in pairs]

    @torch.inference_mode()
    def batches(self, pairs: Sequence[Pair]) -> Iterator[tuple[list[int], np.ndarray]]:
        """Yield indices and probabilities of class 1 (float32 softmax), pairs of similar length together."""
        rows = self.encode(pairs)
        lengths = [len(row) for row in rows]

        def run(indices: list[int]) -> np.ndarray:
            logits = self.model(**self._inputs([rows[index] for index in indices])).logits
            return logits.float().softmax(dim=-1)[:, 1].double().cpu().numpy()

        yield from self._memory.run(lengths, self.tokens_per_pass, run)

    def _inputs(self, rows: Sequence[list[int]]) -> dict[str, torch.Tensor]:
        """Right-padded int64[B, T] inputs; token types are 0 up to the first separator, then 1."""
        ids, own = right_padded(rows, self.model.device, self.tokenizer.pad_token_id)
        first = torch.tensor([row.index(self.tokenizer.sep_token_id) for row in rows], device=ids.device)
        types = own & (torch.arange(ids.shape[1], device=ids.device) > first[:, None])
        return {"input_ids": ids, "attention_mask": own.long(), "token_type_ids": types.long()}


def classifier_identity(config: ClassifierConfig) -> dict[str, Any]:
    """All that a similarity depends on beside the texts; hub repositories are pinned to a commit.

    Raises:
        ModelError: No checkpoint or tokenizer is given, or one cannot be found.
    """
    if config.kind == "lexical":
        return dict(LexicalClassifier.IDENTITY)
    for key in ("checkpoint", "tokenizer"):
        if getattr(config, key) is None:
            raise ModelError(f"evaluate.novelty.classifier.{key} must be given with kind deberta")
    return {
        "kind": config.kind,
        "checkpoint": pinned(config.checkpoint, config.revision),
        "tokenizer": pinned(config.tokenizer, config.tokenizer_revision),
        "dtype": config.dtype,
        "max_tokens": config.max_tokens,
    }


def open_classifier(config: ClassifierConfig, identity: dict[str, Any], device: str | None = None) -> PairScorer:
    """Load the classifier that ``identity`` (of ``classifier_identity``) pins.

    Raises:
        ModelError: It cannot be loaded, has other than two classes, or its tokenizer lacks a token.
    """
    if config.kind == "lexical":
        return LexicalClassifier()
    tokenizer = load_evaluator_tokenizer(config.tokenizer, identity["tokenizer"].get("revision"))
    for name in ("cls_token", "sep_token", "pad_token"):
        if getattr(tokenizer, f"{name}_id") is None:
            raise ModelError(f"the tokenizer {config.tokenizer} has no {name}")
    revision = identity["checkpoint"].get("revision")
    model = load_sequence_classifier(config.checkpoint, revision, config.dtype, device)
    if model.config.num_labels != 2:
        raise ModelError(f"checkpoint {config.checkpoint} has {model.config.num_labels} classes, not 2")
    check_vocabulary(model, tokenizer, config.checkpoint)
    return PairClassifier(model, tokenizer, max_tokens=config.max_tokens, tokens_per_pass=config.tokens_per_pass)
