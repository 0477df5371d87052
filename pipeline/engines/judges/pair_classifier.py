"""NoveltyBench's pair classifier: a fine-tuned DeBERTa-v3 that says whether two responses say the same.

The input of a pair is [CLS] a [SEP] b [SEP], each response cut to its first 128 tokens and the
representative first; the similarity is the probability of class 1.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pipeline.config.evaluation import ClassifierConfig
from pipeline.core.language.novelty_partition import Pair
from pipeline.engines.judges.pair_scorer import EncodedTexts, LexicalClassifier, PairScorer
from pipeline.engines.judges.sequence_classifier import (
    check_vocabulary,
    load_evaluator_tokenizer,
    load_sequence_classifier,
    pinned,
)
from pipeline.errors import ModelError


class PairClassifier(EncodedTexts, PairScorer):
    """A sequence classifier of two classes over pairs of responses, each cut to ``max_tokens``."""

    def encode(self, pairs: Sequence[Pair]) -> list[dict[str, list[int]]]:
        """Token ids of each pair, and their types: 0 up to the first separator, then 1."""
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        encoded = self.tokenizer(texts, add_special_tokens=False, truncation=True, max_length=self.max_tokens)
        ids = dict(zip(texts, encoded["input_ids"], strict=True))
        start, separator = self.tokenizer.cls_token_id, self.tokenizer.sep_token_id
        halves = [([start, *ids[first], separator], [*ids[second], separator]) for first, second in pairs]
        return [
            {"input_ids": first + second, "token_type_ids": [0] * len(first) + [1] * len(second)}
            for first, second in halves
        ]

    def batches(self, pairs: Sequence[Pair]) -> Iterator[tuple[list[int], np.ndarray]]:
        """See PairScorer: probabilities of class 1, by softmax in float32."""
        rows = self.encode(pairs)
        yield from self._run(rows, lambda inputs: self.model(**inputs).logits.float().softmax(dim=-1)[:, 1])


def classifier_identity(config: ClassifierConfig) -> dict[str, Any]:
    """All that a similarity depends on beside the texts; hub repositories are pinned to a commit. Raises ModelError."""
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
    """Load the classifier that ``identity`` (of ``classifier_identity``) pins. Raises ModelError."""
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
