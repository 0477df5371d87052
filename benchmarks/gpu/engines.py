"""Engines that are compared with ours on one model: transformers' ``generate`` as it is, and vLLM."""

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from transformers import GenerationConfig

from benchmarks.gpu.shapes import MODEL, STOP
from pipeline.config.engine import VllmConfig
from pipeline.engines.loading.model import load_tokenizer
from pipeline.engines.sampling.generate import Generation, generation_from_tokens
from pipeline.engines.sampling.text_engine import Sample, SampleRequest, TextEngine
from pipeline.engines.sampling.vllm_engine import open_vllm


class TokenNames:
    """Stands in for a tokenizer where only decoding is asked for: a text is its tokens' ids."""

    # No request begins with one, so that engines cannot double it.
    bos_token_id = None

    def decode(self, tokens: Sequence[int], **_: object) -> str:
        """The token ids as text."""
        return " ".join(map(str, tokens))

    def batch_decode(self, rows: Sequence[Sequence[int]], **_: object) -> list[str]:
        """``decode`` of each row."""
        return [self.decode(row) for row in rows]


class PlainGenerate:
    """``generate`` of transformers as it is, for the same law in other hands; a ``TextEngine``."""

    def __init__(self, model: torch.nn.Module, rows: int, tokenizer: Any = None, stop_ids: Sequence[int] = (STOP,)):
        """``rows`` are run together at most; without a tokenizer a text is its tokens' ids."""
        self._model, self._rows = model, rows
        self._tokenizer, self._stop_ids = tokenizer or TokenNames(), set(stop_ids)

    @torch.inference_mode()
    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[list[Sample]]:
        """See TextEngine; the draws are torch's own, and ``seeds`` name them only."""
        torch.manual_seed(0)
        for request in requests:
            ids = torch.tensor([request.prompt_ids], device=self._model.device)
            pairs = list(request.seeds.items())
            for start in range(0, len(pairs), self._rows):
                part = pairs[start : start + self._rows]
                settings = GenerationConfig(
                    do_sample=True,
                    temperature=request.temperature,
                    top_p=request.top_p,
                    top_k=0,
                    max_new_tokens=request.max_new_tokens,
                    num_return_sequences=len(part),
                    eos_token_id=sorted(self._stop_ids),
                    pad_token_id=0,
                )
                drawn = self._model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=settings)
                rows = drawn[:, ids.shape[1] :].tolist()
                yield [
                    Sample(request.key, index, self._generation(row, seed))
                    for (index, seed), row in zip(part, rows, strict=True)
                ]

    def _generation(self, row: list[int], seed: int) -> Generation:
        """The tokens up to the first stop token, behind which there is padding."""
        end = next((place + 1 for place, token in enumerate(row) if token in self._stop_ids), len(row))
        return generation_from_tokens(self._tokenizer, row[:end], seed, self._stop_ids, True)


@contextlib.contextmanager
def opened_in_vllm(base: torch.nn.Module, dtype: str, probe_ids: list[int]) -> Iterator[TextEngine]:
    """vLLM on the weights of ``base``, which may have adapter layers in it, in what memory is free beside it.

    Raises:
        ModelError: vLLM cannot load it.
    """
    share = 0.9
    if torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        share = 0.9 * free / total
    settings = VllmConfig(
        tensor_parallel_size=1,
        gpu_memory_utilization=share,
        max_model_len=256,
        samples_per_request=250,
        requests_per_call=64,
        enforce_eager=True,
    )
    weights = {
        name.replace(".base_layer", ""): value for name, value in base.state_dict().items() if "lora_" not in name
    }
    with tempfile.TemporaryDirectory() as directory:
        base.save_pretrained(directory, state_dict=weights)
        # vLLM opens a tokenizer; no text of it is used.
        load_tokenizer(MODEL).save_pretrained(directory)
        config = replace(MODEL, checkpoint=directory, dtype=dtype)
        yield open_vllm(config, settings, None, TokenNames(), {STOP}, None, probe_ids)
