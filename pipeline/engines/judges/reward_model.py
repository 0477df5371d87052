"""Rewards of a response to a request: the benchmark's reward model, and a stand-in for machines without it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from pipeline.config.evaluation import RewardConfig
from pipeline.core.language.novelty_partition import Pair
from pipeline.engines.judges.pair_scorer import EncodedTexts, PairScorer
from pipeline.engines.judges.sequence_classifier import (
    check_vocabulary,
    load_evaluator_tokenizer,
    load_sequence_classifier,
    pinned,
)
from pipeline.engines.loading.chat import text_bos
from pipeline.engines.loading.memory import right_padded
from pipeline.engines.loading.model import position_logits
from pipeline.engines.scoring.token_scores import RowScorer
from pipeline.errors import ModelError


class SequenceReward(EncodedTexts, PairScorer):
    """A sequence classifier with one output over a chat of one request and one response.

    A conversation is cut at its end after ``max_tokens``. The configuration of the model names the padding token, which
    tells it where a sequence ends; its tokenizer has a chat template.

    Attributes:
        num_cut: Conversations cut so far.
    """

    num_cut = 0

    def encode(self, pair: Pair) -> list[int]:
        """Token ids of one conversation; the template's text holds its own special tokens, and none are added.

        Raises:
            ModelError: It does not start with exactly one BOS token where the tokenizer has one to add.
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
        self.num_cut += len(ids) > self.max_tokens
        return ids[: self.max_tokens]

    def _inputs(self, rows: Sequence[Mapping[str, list[int]]]) -> dict[str, torch.Tensor]:
        pad_id = self.model.config.get_text_config().pad_token_id
        ids, own = right_padded([row["input_ids"] for row in rows], self.model.device, pad_id)
        return {"input_ids": ids, "attention_mask": own.long()}

    def batches(self, pairs: Sequence[Pair]) -> Iterator[tuple[list[int], np.ndarray]]:
        """See PairScorer: raw rewards of (request, response)."""
        rows = [{"input_ids": self.encode(pair)} for pair in pairs]
        yield from self._run(rows, lambda inputs: self.model(**inputs).logits[:, 0])


class LikelihoodReward(PairScorer):
    """Stand-in reward: mean log-probability per token, in nats, of the response and its terminator.

    It rewards what the model finds likely, which is not quality; its figures are never
    reported under the benchmark's names.

    Args:
        model: Causal language model in evaluation mode.
        tokenizer: Its tokenizer.
        encode: Request text to token ids.
        terminator: Id of the token that ends the answer.
        max_length: Longest request + response in tokens; what is longer is cut at the end.
        tokens_per_pass: Tokens per forward pass, padding included.

    Attributes:
        num_cut: Conversations cut so far.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        encode: Callable[[str], list[int]],
        terminator: int,
        *,
        max_length: int,
        tokens_per_pass: int,
    ):
        self.model, self.tokenizer = model, tokenizer
        self.encode_request, self.terminator = encode, terminator
        self.max_length, self.num_cut = max_length, 0
        self._scorer = RowScorer(position_logits(model), tokens_per_pass)

    def _rows(self, pairs: Sequence[Pair]) -> tuple[list[list[int]], list[int]]:
        """Token ids of each conversation, and how many of them are the request's."""
        requests = {text: self.encode_request(text) for text in dict.fromkeys(pair[0] for pair in pairs)}
        rows, starts = [], []
        for request, response in pairs:
            head = requests[request]
            if len(head) >= self.max_length:
                raise ModelError(
                    f"a request has {len(head)} tokens, which leaves no room for a response in "
                    f"evaluate.novelty.reward.max_length {self.max_length}"
                )
            row = [*head, *self.tokenizer(response, add_special_tokens=False)["input_ids"], self.terminator]
            self.num_cut += len(row) > self.max_length
            rows.append(row[: self.max_length])
            starts.append(len(head))
        return rows, starts

    def batches(self, pairs: Sequence[Pair]) -> Iterator[tuple[list[int], np.ndarray]]:
        """Yield indices and rewards (request, response), conversations of similar length together."""
        for scored in self._scorer.score(*self._rows(pairs)):
            indices, scores = zip(*scored, strict=True)
            yield list(indices), np.array([score[:, 0].mean() for score in scores])


def reward_identity(config: RewardConfig) -> dict[str, Any]:
    """All that a reward depends on beside the texts; a hub repository is pinned to a commit. Raises ModelError."""
    if config.checkpoint is None:
        raise ModelError(f"evaluate.novelty.reward.checkpoint must be given with kind {config.kind}")
    checkpoint = pinned(config.checkpoint, config.revision)
    return {"kind": config.kind, "checkpoint": checkpoint, "dtype": config.dtype, "max_length": config.max_length}


def open_sequence_reward(config: RewardConfig, identity: dict[str, Any], device: str | None = None) -> SequenceReward:
    """Load the reward model that ``identity`` (of ``reward_identity``) pins. Raises ModelError."""
    revision = identity["checkpoint"].get("revision")
    tokenizer = load_evaluator_tokenizer(config.checkpoint, revision)
    if tokenizer.chat_template is None:
        raise ModelError(f"the tokenizer of {config.checkpoint} has no chat template")
    model = load_sequence_classifier(config.checkpoint, revision, config.dtype, device, num_labels=1)
    text_config = model.config.get_text_config()
    if getattr(text_config, "attn_logit_softcapping", None):
        # Gemma 2 caps attention logits. The default implementation (sdpa) leaves that out without a word; the
        # benchmark's own (flash_attention_2) does it, as this one does.
        model.set_attn_implementation("eager")
    if text_config.pad_token_id is None:
        text_config.pad_token_id = tokenizer.pad_token_id
    if text_config.pad_token_id is None:
        raise ModelError(f"neither {config.checkpoint} nor its tokenizer names a padding token")
    check_vocabulary(model, tokenizer, config.checkpoint)
    return SequenceReward(model, tokenizer, max_tokens=config.max_length, tokens_per_pass=config.tokens_per_pass)
