"""Our model as lm-evaluation-harness sees it, asked in its chat template or in plain text.

A text is encoded without adding special tokens, behind one BOS token where the tokenizer adds one and the template has
not printed it. What follows a chat template is encoded by itself, as in training: the answer begins where the
template ends. (The harness would move line breaks at the template's end into the answer.)
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import torch
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from transformers import PreTrainedTokenizerBase

from pipeline.engines.loading.chat import text_bos
from pipeline.engines.sampling.greedy import greedy_answers
from pipeline.engines.scoring.continuation_scorer import ContinuationScorer
from pipeline.engines.scoring.harness_tasks import Render

Answered = list[tuple[int, Any]]
"""Indices of requests and the harness's kind of response to each."""


class HarnessModel(LM):
    """Answers the harness's requests with a loaded model and its adapter.

    Args:
        model: Causal language model in evaluation mode.
        tokenizer: Its tokenizer.
        stop_ids: Tokens that end a generation.
        max_new_tokens: Longest generation; the task files set none (the harness's own default is 256).
        tokens_per_pass: Tokens per forward pass at most.
        render: The chat template that the requests are in; None for plain text.
        add_special_tokens: Whether a BOS token is added although the template has printed one.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        tokenizer: PreTrainedTokenizerBase,
        stop_ids: set[int],
        *,
        max_new_tokens: int,
        tokens_per_pass: int,
        render: Render | None = None,
        add_special_tokens: bool = False,
    ):
        super().__init__()
        self.model, self.tokenizer, self.stop_ids, self.render = model, tokenizer, stop_ids, render
        self.max_new_tokens, self.tokens_per_pass = max_new_tokens, tokens_per_pass
        self.scorer = ContinuationScorer(model, tokens_per_pass)
        bos = text_bos(tokenizer)
        self._bos = [] if bos is None else [bos]
        self._doubles_bos = add_special_tokens and render is not None

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, with at most one BOS unless ``add_special_tokens``."""
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        has_bos = ids[: len(self._bos)] == self._bos and not self._doubles_bos
        return ids if has_bos else [*self._bos, *ids]

    @property
    def tokenizer_name(self) -> str:
        """See LM."""
        return self.tokenizer.name_or_path

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """See LM. Raises ValueError in plain text, and for a conversation that ends inside the answer."""
        if self.render is None or not add_generation_prompt:
            raise ValueError("requests are in plain text" if self.render is None else "answers are not begun")
        return self.render(chat_history)

    def encode_pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """Token ids of a context and of its continuation; of plain text split as the harness splits them.

        Blanks at the end of plain text go to the continuation. Both texts are encoded together and
        cut after as many tokens as the context has alone, so that the continuation's first token
        is the one it has in running text.
        """
        if self.render is not None:
            return self.encode(context), self.tokenizer(continuation, add_special_tokens=False)["input_ids"]
        end = len(context.rstrip())
        context, continuation = context[:end], context[end:] + continuation
        alone = self.encode(context)
        return alone, self.encode(context + continuation)[len(alone) :]

    def answer(self, request_type: str, arguments: Sequence[tuple]) -> Iterator[Answered]:
        """Answer requests of one type, and hand them over as they are done.

        Args:
            request_type: "loglikelihood" or "generate_until".
            arguments: (context, continuation), or (context, generation settings), of each.

        Yields:
            Indices with (log-likelihood in nats, whether greedy decoding gives it), or with the fields of GreedyAnswer.

        Raises:
            ValueError: Another type, or settings that ask for sampling.
        """
        if request_type == "loglikelihood":
            for scores in self.scorer.score([self.encode_pair(*pair) for pair in arguments]):
                yield [(index, (score.log_likelihood, score.is_greedy)) for index, score in scores]
        elif request_type == "generate_until":
            yield from self._generate(arguments)
        else:
            raise ValueError(f"there are no answers to requests of type {request_type!r}")

    def _generate(self, arguments: Sequence[tuple]) -> Iterator[Answered]:
        settings = [tuple(until["until"]) for _, until in arguments]
        if any(until.get("do_sample") or until.get("temperature") for _, until in arguments):
            raise ValueError("only greedy generation is supported")
        for stops in dict.fromkeys(settings):
            members = [index for index, own in enumerate(settings) if own == stops]
            prompts = [self.encode(arguments[index][0]) for index in members]
            batches = greedy_answers(
                self.model,
                self.tokenizer,
                prompts,
                stop_ids=self.stop_ids,
                stops=stops,
                max_new_tokens=self.max_new_tokens,
                tokens_per_pass=self.tokens_per_pass,
            )
            for answers in batches:
                yield [(members[place], asdict(answer)) for place, answer in answers]

    def _all(self, request_type: str, requests: Sequence[Instance]) -> list:
        batches = self.answer(request_type, [request.args for request in requests])
        answers = dict(answered for batch in batches for answered in batch)
        return [answers[index] for index in range(len(requests))]

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        """(log-likelihood in nats, whether greedy decoding gives it) of each continuation."""
        return self._all("loglikelihood", requests)

    def generate_until(self, requests: list[Instance]) -> list[str]:
        """Greedy continuation of each context up to its stop strings."""
        return [answer["text"] for answer in self._all("generate_until", requests)]

    def loglikelihood_rolling(self, requests: list[Instance]) -> list[float]:
        """Log-likelihood in nats of each whole text behind BOS, or behind EOS where there is no BOS."""
        start = self._bos or [self.tokenizer.eos_token_id]
        texts = [self.tokenizer(request.args[0], add_special_tokens=False)["input_ids"] for request in requests]
        scores = dict(done for batch in self.scorer.score([(start, text) for text in texts]) for done in batch)
        return [scores[index].log_likelihood for index in range(len(texts))]
