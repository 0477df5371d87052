"""A model of natural language inference as a judge of whether two answers to a question say the same.

Any sequence classifier with a label "entailment" (microsoft/deberta-large-mnli, roberta-large-mnli, ...); a pair of
texts is laid out as its own tokenizer does.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from pipeline.config.evaluation import JudgeConfig
from pipeline.core.language.novelty_partition import Pair
from pipeline.engines.judges.pair_scorer import EncodedTexts, PairScorer, rows_of
from pipeline.engines.judges.sequence_classifier import (
    check_vocabulary,
    load_evaluator_tokenizer,
    load_sequence_classifier,
    pinned,
)
from pipeline.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

VERDICTS = {"entailment": 1.0, "contradiction": -1.0}
"""By label; any other is 0, as "neutral"."""


class EntailmentJudge(EncodedTexts, PairScorer):
    """Verdicts on the second text of a pair given the first: 1 it follows, 0 it may be, -1 it cannot be.

    Of a pair the last ``max_tokens`` are kept. Raises ModelError where no label of the model is called "entailment".
    """

    def __init__(self, model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", **limits: int):
        super().__init__(model, tokenizer, **limits)
        labels = [str(label).lower() for _, label in sorted(model.config.id2label.items())]
        if "entailment" not in labels:
            raise ModelError(
                f"the judge of entailment has no label 'entailment', only {', '.join(labels)}; it must be a model of "
                "natural language inference"
            )
        self._verdicts = torch.tensor([VERDICTS.get(label, 0.0) for label in labels], device=model.device)

    def batches(self, pairs: Sequence[Pair]) -> Iterator[tuple[list[int], np.ndarray]]:
        """See PairScorer."""
        if not pairs:
            return
        # The answers are at the ends.
        self.tokenizer.truncation_side = "left"
        encoded = self.tokenizer(*map(list, zip(*pairs, strict=True)), truncation=True, max_length=self.max_tokens)
        yield from self._run(
            rows_of(encoded), lambda inputs: self._verdicts[self.model(**inputs).logits.argmax(dim=-1)]
        )


def judge_identity(config: JudgeConfig) -> dict[str, Any]:
    """All that a verdict depends on beside the texts; a hub repository is pinned to a commit. Raises ModelError."""
    checkpoint = pinned(config.checkpoint, config.revision)
    return {"kind": "entailment", "checkpoint": checkpoint, "dtype": config.dtype, "max_tokens": config.max_tokens}


def open_judge(config: JudgeConfig, identity: dict[str, Any], device: str | None = None) -> EntailmentJudge:
    """Load the judge that ``identity`` (of ``judge_identity``) pins. Raises ModelError."""
    revision = identity["checkpoint"].get("revision")
    tokenizer = load_evaluator_tokenizer(config.checkpoint, revision)
    model = load_sequence_classifier(config.checkpoint, revision, config.dtype, device)
    check_vocabulary(model, tokenizer, config.checkpoint)
    return EntailmentJudge(model, tokenizer, max_tokens=config.max_tokens, tokens_per_pass=config.tokens_per_pass)
