"""The Hugging Face engine: the reference implementation, and the only one that decodes under a constraint."""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import groupby
from typing import Any, Literal

import torch
from transformers import PreTrainedTokenizerBase

from pipeline.engines.loading.memory import is_out_of_memory, release, say_smaller, too_large
from pipeline.engines.sampling.generate import generate_prompts, generate_stream
from pipeline.engines.sampling.text_engine import Sample, SampleRequest


class TransformersEngine:
    """Samples with a model in this process. Every sample draws with the uniform numbers of its own seed."""

    def __init__(
        self,
        model: torch.nn.Module,
        tokenizer: PreTrainedTokenizerBase,
        stop_ids: set[int],
        *,
        batch_size: int,
        strategy: Literal["merged", "rows"],
    ) -> None:
        """``model`` is in evaluation mode, with or without adapter; the rest is as in ``generate_stream``."""
        self._model, self._tokenizer, self._stop_ids = model, tokenizer, stop_ids
        self._batch_size, self._strategy = batch_size, strategy

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[list[Sample]]:
        """See TextEngine. With the strategy "rows", samples of different requests are decoded together.

        Where the GPU's memory is too small for ``batch_size`` rows, half as many are decoded from there on, and the
        samples that were under way are drawn again. Raises ModelError where a single row does not fit.
        """
        left = list(requests)
        while left:
            finished: dict[str, set[int]] = {}
            try:
                for samples in self._sample_all(left):
                    for sample in samples:
                        finished.setdefault(sample.key, set()).add(sample.sample_index)
                    yield samples
                return
            # The exception, which holds the rows, is gone when their memory is given back.
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                if self._batch_size == 1:
                    raise too_large("one answer", error) from None
            self._batch_size //= 2
            release()
            say_smaller(f"at most {self._batch_size} rows")
            left = [rest for request in left if (rest := _without(request, finished.get(request.key, set()))).seeds]

    def _sample_all(self, requests: Sequence[SampleRequest]) -> Iterator[list[Sample]]:
        for _, group in groupby(requests, key=self._together):
            alike = list(group)
            yield from self._sample_one(alike[0]) if len(alike) == 1 else self._sample_many(alike)

    def _together(self, request: SampleRequest) -> tuple:
        """Neighbouring requests with equal keys are decoded together."""
        settings = (request.max_new_tokens, request.temperature, request.top_p, request.skip_special_tokens)
        return settings if self._strategy == "rows" and request.constraint is None else (id(request),)

    def _sample_one(self, request: SampleRequest) -> Iterator[list[Sample]]:
        indices = list(request.seeds)
        stream = generate_stream(
            self._model,
            self._tokenizer,
            request.prompt_ids,
            list(request.seeds.values()),
            strategy=self._strategy,
            constraint=request.constraint,
            **self._settings(request),
        )
        for finished in stream:
            yield [Sample(request.key, indices[position], answer) for position, answer in finished]

    def _sample_many(self, requests: Sequence[SampleRequest]) -> Iterator[list[Sample]]:
        indices = [list(request.seeds) for request in requests]
        stream = generate_prompts(
            self._model,
            self._tokenizer,
            [request.prompt_ids for request in requests],
            [list(request.seeds.values()) for request in requests],
            **self._settings(requests[0]),
        )
        for finished in stream:
            yield [
                Sample(requests[place].key, indices[place][position], answer) for place, position, answer in finished
            ]

    def _settings(self, request: SampleRequest) -> dict[str, Any]:
        return {
            "stop_ids": self._stop_ids,
            "max_new_tokens": request.max_new_tokens,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "batch_size": self._batch_size,
            "skip_special_tokens": request.skip_special_tokens,
        }

    @torch.inference_mode()
    def first_token_log_probabilities(self, request: SampleRequest, top: int) -> dict[int, float]:
        """See TextEngine."""
        device = next(self._model.parameters()).device
        logits = self._model(input_ids=torch.tensor([request.prompt_ids], device=device), logits_to_keep=1).logits
        values, tokens = torch.log_softmax(logits[0, -1].double(), dim=-1).topk(top)
        return dict(zip(tokens.tolist(), values.tolist(), strict=True))


def _without(request: SampleRequest, finished: AbstractSet[int]) -> SampleRequest:
    """The request for the samples that are not ``finished`` yet."""
    return replace(request, seeds={index: seed for index, seed in request.seeds.items() if index not in finished})
