"""Models that give pairs of texts a number: NoveltyBench's pair classifier and reward model, and stand-ins for them.

``..._identity`` give what the numbers depend on beside the texts, ``open_...`` load it. All raise ModelError.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from pipeline.artifacts.storage import sha256_file
from pipeline.config.evaluation import ClassifierConfig, RewardConfig
from pipeline.core.language.novelty import Pair, word_dice
from pipeline.engines.loading.chat import text_bos
from pipeline.engines.loading.conditioned_model import opened_once
from pipeline.engines.loading.memory import length_buckets, right_padded
from pipeline.engines.loading.model import default_device, load_pretrained, position_logits
from pipeline.engines.scoring.token_scores import RowScorer
from pipeline.errors import ModelError, first_line
from pipeline.sources.repository import pinned_commit

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Batches = Iterator[tuple[list[int], np.ndarray]]


def pinned(checkpoint: str, revision: str | None) -> dict[str, Any]:
    """A checkpoint's content: {"files": SHA-256 by name}, or a hub repository with its commit. Raises ModelError."""
    directory = Path(checkpoint)
    if directory.is_dir():
        files = sorted(path for path in directory.iterdir() if path.is_file() and path.suffix != ".md")
        return {"files": {path.name: sha256_file(path) for path in files}}
    if checkpoint.startswith(("/", "./", "../", "models/")):
        raise ModelError(f"checkpoint directory {checkpoint} does not exist")
    return {"repository": checkpoint, "revision": pinned_commit(checkpoint, revision, "model")}


def load_evaluator(checkpoint: str, revision: str | None, dtype: str, num_labels: int) -> "PreTrainedModel":
    """A sequence classifier with ``num_labels`` outputs in evaluation mode. Raises ModelError."""
    from transformers import AutoModelForSequenceClassification

    # Else a repository without safetensors is sent to a converter on the hub in the background.
    os.environ.setdefault("DISABLE_SAFETENSORS_CONVERSION", "1")
    kind, options = "sequence classifier", {"weights_only": True, "num_labels": num_labels}

    def load() -> "PreTrainedModel":
        loader = AutoModelForSequenceClassification
        model = load_pretrained(loader, kind, checkpoint, revision, dtype, **options)
        return model.to(default_device()).eval()

    return opened_once((kind, checkpoint, revision, dtype, num_labels), load)


def load_evaluator_tokenizer(
    checkpoint: str, revision: str | None, model: "PreTrainedModel"
) -> "PreTrainedTokenizerBase":
    """The tokenizer of a model. Raises ModelError, also where the model lacks its tokens."""
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


class LexicalClassifier:
    """Word overlap of two responses (``word_dice``), for machines without the classifier's weights."""

    def batches(self, pairs: Sequence[Pair]) -> Batches:
        if pairs:
            yield list(range(len(pairs))), np.array([word_dice(*pair) for pair in pairs])


@dataclass
class SequenceClassifier:
    """A model in evaluation mode that is run on encoded pairs; ``score`` gives [R] of logits [R, num_labels]."""

    model: "PreTrainedModel"
    tokenizer: "PreTrainedTokenizerBase"
    max_tokens: int
    tokens_per_pass: int  # padding included

    @torch.inference_mode()
    def batches(self, pairs: Sequence[Pair]) -> Batches:
        rows, pad_id = [self.encode(pair) for pair in pairs], self.model.config.get_text_config().pad_token_id
        for indices in length_buckets(list(map(len, rows)), self.tokens_per_pass):
            ids, own = right_padded([rows[index] for index in indices], self.model.device, pad_id)
            logits = self.model(input_ids=ids, attention_mask=own.long()).logits
            yield indices, self.score(logits).double().cpu().numpy()


class PairClassifier(SequenceClassifier):
    """NoveltyBench's pair classifier: a fine-tuned DeBERTa-v3 that says whether two responses say the same.

    The input of a pair is [CLS] a [SEP] b [SEP], each response cut to its first ``max_tokens`` and the representative
    first; the similarity is the probability of class 1.
    """

    def encode(self, pair: Pair) -> list[int]:
        limits = {"add_special_tokens": False, "truncation": True, "max_length": self.max_tokens}
        first, second = self.tokenizer(list(pair), **limits)["input_ids"]
        start, separator = self.tokenizer.cls_token_id, self.tokenizer.sep_token_id
        return [start, *first, separator, *second, separator]

    def score(self, logits: torch.Tensor) -> torch.Tensor:
        return logits.float().softmax(dim=-1)[:, 1]


def classifier_identity(config: ClassifierConfig) -> dict[str, Any]:
    if config.kind == "lexical":
        return {"kind": "lexical", "similarity": "word_dice"}
    for name in ("checkpoint", "tokenizer"):
        if getattr(config, name) is None:
            raise ModelError(f"evaluate.novelty.classifier.{name} must be given with kind {config.kind}")
    return {
        "kind": config.kind,
        "checkpoint": pinned(config.checkpoint, config.revision),
        "tokenizer": pinned(config.tokenizer, config.tokenizer_revision),
        "dtype": config.dtype,
        "max_tokens": config.max_tokens,
    }


def open_classifier(config: ClassifierConfig, identity: dict[str, Any]) -> LexicalClassifier | PairClassifier:
    if config.kind == "lexical":
        return LexicalClassifier()
    model = load_evaluator(config.checkpoint, identity["checkpoint"].get("revision"), config.dtype, num_labels=2)
    tokenizer = load_evaluator_tokenizer(config.tokenizer, identity["tokenizer"].get("revision"), model)
    for name in ("cls_token", "sep_token"):
        if getattr(tokenizer, f"{name}_id") is None:
            raise ModelError(f"the tokenizer {config.tokenizer} has no {name}")
    return PairClassifier(model, tokenizer, config.max_tokens, config.tokens_per_pass)


class SequenceReward(SequenceClassifier):
    """A sequence classifier with one output over a chat of one request and one response, cut at its end."""

    def encode(self, pair: Pair) -> list[int]:
        """Token ids of the template's text. Raises ModelError unless exactly one BOS, where there is one, starts it."""
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

    def score(self, logits: torch.Tensor) -> torch.Tensor:
        return logits[:, 0]


def reward_identity(config: RewardConfig) -> dict[str, Any]:
    if config.checkpoint is None:
        raise ModelError(f"evaluate.novelty.reward.checkpoint must be given with kind {config.kind}")
    checkpoint = pinned(config.checkpoint, config.revision)
    return {"kind": config.kind, "checkpoint": checkpoint, "dtype": config.dtype, "max_length": config.max_length}


def open_sequence_reward(config: RewardConfig, identity: dict[str, Any]) -> SequenceReward:
    revision = identity["checkpoint"].get("revision")
    model = load_evaluator(config.checkpoint, revision, config.dtype, num_labels=1)
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
class LikelihoodReward:
    """Stand-in reward: mean log-probability per token, in nats, of the response and its terminator.

    It rewards what the model finds likely, which is not quality. Conversations are cut after ``max_length`` tokens.
    """

    model: "PreTrainedModel"
    tokenizer: "PreTrainedTokenizerBase"
    encode_request: Callable[[str], list[int]]
    terminator: int
    max_length: int
    tokens_per_pass: int

    def batches(self, pairs: Sequence[Pair]) -> Batches:
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
