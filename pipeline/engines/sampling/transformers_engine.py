"""The Hugging Face engine: the reference implementation, and the only one that decodes under a constraint."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from transformers import PreTrainedTokenizerBase

from pipeline.engines.sampling.generate import generate_prompts
from pipeline.engines.sampling.samplers import SamplingLaw
from pipeline.engines.sampling.text_engine import Sample, SampleRequest


@dataclass(frozen=True)
class TransformersEngine:
    """Samples with a model in this process, in evaluation mode. Every sample draws with the numbers of its own seed."""

    model: torch.nn.Module
    tokenizer: PreTrainedTokenizerBase
    stop_ids: set[int]
    batch_size: int

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[list[Sample]]:
        """See TextEngine. Neighbouring requests that share what concerns all rows are decoded together."""
        for (max_new_tokens, skip_special_tokens, _), group in groupby(
            requests, key=lambda request: (request.max_new_tokens, request.skip_special_tokens, id(request.constraint))
        ):
            alike = list(group)
            indices = [list(request.seeds) for request in alike]
            stream = generate_prompts(
                self.model,
                self.tokenizer,
                [request.prompt_ids for request in alike],
                [list(request.seeds.values()) for request in alike],
                [SamplingLaw(request.temperature, request.top_p, request.top_k) for request in alike],
                stop_ids=self.stop_ids,
                max_new_tokens=max_new_tokens,
                batch_size=self.batch_size,
                constraint=alike[0].constraint,
                skip_special_tokens=skip_special_tokens,
            )
            for finished in stream:
                yield [Sample(alike[place].key, indices[place][index], answer) for place, index, answer in finished]
