"""The Hugging Face engine: the reference implementation, and the only one that decodes under a constraint."""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import groupby
from typing import Literal

import torch
from transformers import PreTrainedTokenizerBase

from pipeline.engines.loading.memory import is_out_of_memory, release, say_smaller, too_large
from pipeline.engines.sampling.generate import generate_prompts
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
        """``model`` is in evaluation mode, with or without adapter; the rest is as in ``generate_prompts``."""
        self._model, self._tokenizer, self._stop_ids = model, tokenizer, stop_ids
        self._batch_size, self._strategy = batch_size, strategy

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[list[Sample]]:
        """See TextEngine. With the strategy "rows", samples of different requests are decoded together.

        A prompt of several requests, which may differ in their decoding settings, is run once for all of them.

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
        for _, group in groupby(requests, key=_together):
            alike = list(group)
            indices = [list(request.seeds) for request in alike]
            stream = generate_prompts(
                self._model,
                self._tokenizer,
                [request.prompt_ids for request in alike],
                [list(request.seeds.values()) for request in alike],
                stop_ids=self._stop_ids,
                max_new_tokens=alike[0].max_new_tokens,
                temperature=[request.temperature for request in alike],
                top_p=[request.top_p for request in alike],
                top_k=[request.top_k for request in alike],
                batch_size=self._batch_size,
                strategy=self._strategy,
                constraint=alike[0].constraint,
                skip_special_tokens=alike[0].skip_special_tokens,
            )
            for finished in stream:
                yield [Sample(alike[place].key, indices[place][index], answer) for place, index, answer in finished]


def _together(request: SampleRequest) -> tuple:
    """Neighbouring requests with equal keys are decoded together."""
    return (request.max_new_tokens, request.skip_special_tokens, id(request.constraint))


def _without(request: SampleRequest, finished: AbstractSet[int]) -> SampleRequest:
    """The request for the samples that are not ``finished`` yet."""
    return replace(request, seeds={index: seed for index, seed in request.seeds.items() if index not in finished})
