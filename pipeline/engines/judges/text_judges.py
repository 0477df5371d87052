"""Models that read texts: pairs that say the same, answers that follow from each other, rewards, and embeddings.

The function ``..._identity`` of each gives all that its figures depend on beside the texts, a hub repository pinned to
a commit, and ``open_...`` loads what an identity pins. All raise ModelError.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import BatchEncoding, PreTrainedModel, PreTrainedTokenizerBase

from pipeline.config.evaluation import ClassifierConfig, JudgeConfig, RewardConfig, SimilarityConfig
from pipeline.core.language.novelty import Pair, word_dice
from pipeline.engines.judges.evaluator import (
    EncodedTexts,
    PairScorer,
    load_evaluator,
    load_evaluator_tokenizer,
    pinned,
    rows_of,
)
from pipeline.engines.loading.chat import text_bos
from pipeline.engines.loading.memory import right_padded
from pipeline.engines.loading.model import position_logits
from pipeline.engines.scoring.token_scores import RowScorer
from pipeline.errors import ModelError

VERDICTS = {"entailment": 1.0, "contradiction": -1.0}
"""Of the judge of entailment by label; any other is 0, as "neutral"."""


def _identity(config: Any, kind: str, limit: str, **more: Any) -> dict[str, Any]:
    if config.checkpoint is None:
        raise ModelError(f"evaluate.*.checkpoint must be given with kind {kind}")
    checkpoint = pinned(config.checkpoint, config.revision)
    return {"kind": kind, "checkpoint": checkpoint, **more, "dtype": config.dtype, limit: getattr(config, limit)}


class LexicalClassifier(PairScorer):
    """Word overlap of two responses (``word_dice``), for machines without the classifier's weights."""

    def batches(self, pairs: Sequence[Pair]) -> Iterator[tuple[list[int], np.ndarray]]:
        """All pairs at once; they need no model."""
        if pairs:
            yield list(range(len(pairs))), np.array([word_dice(*pair) for pair in pairs])


class PairClassifier(EncodedTexts, PairScorer):
    """NoveltyBench's pair classifier: a fine-tuned DeBERTa-v3 that says whether two responses say the same.

    The input of a pair is [CLS] a [SEP] b [SEP], each response cut to its first ``max_tokens`` and the representative
    first; the similarity is the probability of class 1.
    """

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
    """See the module."""
    if config.kind == "lexical":
        return {"kind": "lexical", "similarity": "word_dice"}
    if config.tokenizer is None:
        raise ModelError(f"evaluate.novelty.classifier.tokenizer must be given with kind {config.kind}")
    tokenizer = pinned(config.tokenizer, config.tokenizer_revision)
    return _identity(config, config.kind, "max_tokens", tokenizer=tokenizer)


def open_classifier(config: ClassifierConfig, identity: dict[str, Any], device: str | None = None) -> PairScorer:
    """See the module."""
    if config.kind == "lexical":
        return LexicalClassifier()
    model = load_evaluator(config.checkpoint, identity["checkpoint"].get("revision"), config.dtype, device)
    tokenizer = load_evaluator_tokenizer(config.tokenizer, identity["tokenizer"].get("revision"), model)
    for name in ("cls_token", "sep_token", "pad_token"):
        if getattr(tokenizer, f"{name}_id") is None:
            raise ModelError(f"the tokenizer {config.tokenizer} has no {name}")
    if model.config.num_labels != 2:
        raise ModelError(f"checkpoint {config.checkpoint} has {model.config.num_labels} classes, not 2")
    return PairClassifier(model, tokenizer, config.max_tokens, config.tokens_per_pass)


class EntailmentJudge(EncodedTexts, PairScorer):
    """Verdicts on the second text of a pair given the first: 1 it follows, 0 it may be, -1 it cannot be.

    Any model of natural language inference (microsoft/deberta-large-mnli, roberta-large-mnli, ...); a pair is laid out
    as its own tokenizer does, and its last ``max_tokens`` are kept.
    """

    def batches(self, pairs: Sequence[Pair]) -> Iterator[tuple[list[int], np.ndarray]]:
        """See PairScorer."""
        if not pairs:
            return
        # The answers are at the ends.
        self.tokenizer.truncation_side = "left"
        encoded = self.tokenizer(*map(list, zip(*pairs, strict=True)), truncation=True, max_length=self.max_tokens)
        values = [VERDICTS.get(label, 0.0) for label in _labels(self.model)]
        verdicts = torch.tensor(values, device=self.model.device)
        yield from self._run(rows_of(encoded), lambda inputs: verdicts[self.model(**inputs).logits.argmax(dim=-1)])


def _labels(model: PreTrainedModel) -> list[str]:
    return [str(label).lower() for _, label in sorted(model.config.id2label.items())]


def judge_identity(config: JudgeConfig) -> dict[str, Any]:
    """See the module."""
    return _identity(config, "entailment", "max_tokens")


def open_judge(config: JudgeConfig, identity: dict[str, Any], device: str | None = None) -> EntailmentJudge:
    """See the module."""
    revision = identity["checkpoint"].get("revision")
    model = load_evaluator(config.checkpoint, revision, config.dtype, device)
    if "entailment" not in _labels(model):
        raise ModelError(
            f"the judge of entailment has no label 'entailment', only {', '.join(_labels(model))}; it must be a model "
            "of natural language inference"
        )
    tokenizer = load_evaluator_tokenizer(config.checkpoint, revision, model)
    return EntailmentJudge(model, tokenizer, config.max_tokens, config.tokens_per_pass)


class SequenceReward(EncodedTexts, PairScorer):
    """A sequence classifier with one output over a chat of one request and one response, cut at its end."""

    def encode(self, pair: Pair) -> list[int]:
        """Token ids of one conversation; the template's text holds its own special tokens, and none are added.

        Raises ModelError where it does not start with exactly one BOS token and the tokenizer has one to add.
        """
        messages = [{"role": "user", "content": pair[0]}, {"role": "assistant", "content": pair[1]}]
        text = self.tokenizer.apply_chat_template(messages, tokenize=False)
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        bos = self.tokenizer.bos_token_id
        # A response may itself spell out the token; only the start can be the template's doing.
        if bos is not None and (ids[:2] == [bos, bos] or (ids[:1] != [bos] and text_bos(self.tokenizer) is not None)):
            raise ModelError(
                f"the chat template of {self.tokenizer.name_or_path!r} does not start a conversation with one BOS token"
            )
        return ids[: self.max_tokens]

    def _inputs(self, rows: Sequence[Mapping[str, list[int]]]) -> dict[str, torch.Tensor]:
        pad_id = self.model.config.get_text_config().pad_token_id
        ids, own = right_padded([row["input_ids"] for row in rows], self.model.device, pad_id)
        return {"input_ids": ids, "attention_mask": own.long()}

    def batches(self, pairs: Sequence[Pair]) -> Iterator[tuple[list[int], np.ndarray]]:
        """See PairScorer: raw rewards of (request, response)."""
        rows = [{"input_ids": self.encode(pair)} for pair in pairs]
        yield from self._run(rows, lambda inputs: self.model(**inputs).logits[:, 0])


def reward_identity(config: RewardConfig) -> dict[str, Any]:
    """See the module."""
    return _identity(config, config.kind, "max_length")


def open_sequence_reward(config: RewardConfig, identity: dict[str, Any], device: str | None = None) -> SequenceReward:
    """See the module."""
    revision = identity["checkpoint"].get("revision")
    model = load_evaluator(config.checkpoint, revision, config.dtype, device, num_labels=1)
    tokenizer = load_evaluator_tokenizer(config.checkpoint, revision, model)
    if tokenizer.chat_template is None:
        raise ModelError(f"the tokenizer of {config.checkpoint} has no chat template")
    text_config = model.config.get_text_config()
    if getattr(text_config, "attn_logit_softcapping", None):
        # Gemma 2 caps attention logits. The default implementation (sdpa) leaves that out without a word; the
        # benchmark's own (flash_attention_2) does it, as this one does.
        model.set_attn_implementation("eager")
    if text_config.pad_token_id is None:
        text_config.pad_token_id = tokenizer.pad_token_id
    if text_config.pad_token_id is None:
        raise ModelError(f"neither {config.checkpoint} nor its tokenizer names a padding token")
    return SequenceReward(model, tokenizer, config.max_length, config.tokens_per_pass)


@dataclass
class LikelihoodReward(PairScorer):
    """Stand-in reward: mean log-probability per token, in nats, of the response and its terminator.

    It rewards what the model finds likely, which is not quality; its figures are never reported under the benchmark's
    names. Conversations of more than ``max_length`` tokens are cut at the end.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    encode_request: Callable[[str], list[int]]
    terminator: int
    max_length: int
    tokens_per_pass: int

    def batches(self, pairs: Sequence[Pair]) -> Iterator[tuple[list[int], np.ndarray]]:
        """See PairScorer."""
        requests = {text: self.encode_request(text) for text in dict.fromkeys(pair[0] for pair in pairs)}
        if (longest := max(map(len, requests.values()), default=0)) >= self.max_length:
            raise ModelError(
                f"a request has {longest} tokens, which leaves no room for a response in "
                f"evaluate.novelty.reward.max_length {self.max_length}"
            )
        responses = [self.tokenizer(text, add_special_tokens=False)["input_ids"] for _, text in pairs]
        rows = [[*requests[pair[0]], *ids, self.terminator] for pair, ids in zip(pairs, responses, strict=True)]
        cut, starts = [row[: self.max_length] for row in rows], [len(requests[request]) for request, _ in pairs]
        for scored in RowScorer(position_logits(self.model), self.tokens_per_pass).score(cut, starts):
            yield [index for index, _ in scored], np.array([score[:, 0].mean() for _, score in scored])


class SentenceEmbedder(EncodedTexts):
    """Mean-pooled last hidden states of an encoder, as sentence-transformers has it for all-MiniLM-L6-v2."""

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """float64[n, d] of n texts; zeros for an empty one. Raises ModelError."""
        places = [place for place, text in enumerate(texts) if text.strip()]
        vectors = np.zeros((len(texts), self.model.config.hidden_size))
        if not places:
            return vectors
        encoded = self.tokenizer([texts[place] for place in places], truncation=True, max_length=self.max_tokens)

        def pooled(inputs: BatchEncoding) -> torch.Tensor:
            hidden, own = self.model(**inputs).last_hidden_state.float(), inputs["attention_mask"].unsqueeze(-1)
            return (hidden * own).sum(dim=1) / own.sum(dim=1)

        for indices, values in self._run(rows_of(encoded), pooled):
            vectors[[places[index] for index in indices]] = values
        if not np.isfinite(vectors).all():
            raise ModelError("the embedding of a text is not finite")
        return vectors


def embedding_identity(config: SimilarityConfig) -> dict[str, Any]:
    """See the module."""
    return _identity(config, config.kind, "max_tokens")


def open_embedder(config: SimilarityConfig, identity: dict[str, Any], device: str | None = None) -> SentenceEmbedder:
    """See the module."""
    checkpoint, revision = str(config.checkpoint), identity["checkpoint"].get("revision")
    model = load_evaluator(checkpoint, revision, config.dtype, device, classifies=False)
    tokenizer = load_evaluator_tokenizer(checkpoint, revision, model)
    if tokenizer.pad_token_id is None:
        raise ModelError(f"the tokenizer {checkpoint} has no pad_token")
    return SentenceEmbedder(model, tokenizer, config.max_tokens, config.tokens_per_pass)
