"""The interface of everything that samples answers: Hugging Face models, vLLM, and servers over HTTP.

An engine is opened on one model under one condition. It takes many requests at once and hands
over samples as they are finished, so that the caller can keep them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Protocol

from packaging.version import Version
from transformers import AutoConfig, GenerationConfig, PreTrainedTokenizerBase

from pipeline.config.evaluation import GenerateConfig
from pipeline.config.models import ModelConfig
from pipeline.core.tries.constraint import TrieConstraint
from pipeline.engines.loading.model import stop_ids
from pipeline.engines.sampling.generate import Generation
from pipeline.errors import ModelError, PipelineError, first_line

COMPARED_TOKENS = 20
"""Most probable next tokens whose log-probabilities are compared with and without an adapter."""


class EngineError(PipelineError):
    """An engine cannot do what it was asked for, or a server failed for good; the message says why."""


@dataclass(frozen=True)
class SampleRequest:
    """Independent samples to draw behind one prompt.

    Attributes:
        key: Names the request among those of one call, e.g. the prompt id.
        prompt_ids: The encoded request, up to where the answer starts.
        messages: The same request as a chat, for servers that apply a template of their own.
        seeds: Seed of each sample's own random stream, by sample index.
        max_new_tokens: Longest generation in tokens, the stop token included.
        temperature: Softmax temperature.
        top_p: Nucleus mass, 1 for none.
        skip_special_tokens: Whether special tokens other than the stop token are left out of the text.
        constraint: Restricts every step to what a trie holds; None for none. Hugging Face engine only.
        top_k: Most probable tokens to draw from, None for all.
    """

    key: str
    prompt_ids: list[int]
    messages: list[dict[str, str]]
    seeds: dict[int, int]
    max_new_tokens: int
    temperature: float
    top_p: float
    skip_special_tokens: bool = True
    constraint: TrieConstraint | None = None
    top_k: int | None = None


@dataclass(frozen=True)
class Sample:
    """One finished sample of a request.

    Attributes:
        key: The request's.
        sample_index: Its index among the request's samples.
        generation: The answer. Its ``seed`` is the sample's own, whatever the engine drew with; its
            ``num_tokens`` counts the stop token, its ``text`` leaves it out.
    """

    key: str
    sample_index: int
    generation: Generation


class TextEngine(Protocol):
    """A model under a condition, ready to sample."""

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[list[Sample]]:
        """Draw every sample of every request; hand them over in whole groups as they are finished.

        What a sample is depends on its request, its index and its seed, never on which other samples
        are still missing. Samples that an engine draws together (see ``seed_groups``) come in one list.

        Raises:
            EngineError: What was handed over before stays valid.
        """
        ...

    def first_token_log_probabilities(self, request: SampleRequest, top: int) -> dict[int, float] | None:
        """Natural log-probabilities of the ``top`` most probable first tokens, by token id, at temperature 1.

        Normalised over the whole vocabulary. The request's sampling settings play no part.
        None where the engine does not offer them.
        """
        ...


def seed_groups(seeds: Mapping[int, int], size: int) -> list[dict[int, int]]:
    """Split ``seeds`` (seed by sample index) into what one request with n samples asks for.

    Samples are together where index // ``size`` is equal. That depends on the index alone, so an
    interrupted run asks the same again, as long as whole groups are kept or lost.
    """
    groups: dict[int, dict[int, int]] = {}
    for index in sorted(seeds):
        groups.setdefault(index // size, {})[index] = seeds[index]
    return list(groups.values())


def first_seed(group: Mapping[int, int]) -> int:
    """Seed of a group's first sample: the one that a request for the group is given."""
    return group[min(group)]


def _generation_config(config: ModelConfig, revision: str | None) -> GenerationConfig:
    """A checkpoint's sampling defaults and stop tokens. Raises ModelError."""
    source = {"revision": revision or config.revision}
    try:
        try:
            return GenerationConfig.from_pretrained(config.checkpoint, **source)
        except OSError:
            # As transformers does for a checkpoint without generation_config.json.
            model_config = AutoConfig.from_pretrained(config.checkpoint, trust_remote_code=False, **source)
            return GenerationConfig.from_model_config(model_config)
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot read the configuration of {config.checkpoint}: {first_line(error)}") from None


def checkpoint_stop_ids(
    config: ModelConfig, tokenizer: PreTrainedTokenizerBase, revision: str | None = None
) -> set[int]:
    """``stop_ids`` of a checkpoint whose model is not loaded in this process. Raises ModelError."""
    declared = _generation_config(config, revision)
    return stop_ids(SimpleNamespace(generation_config=declared), tokenizer, config.terminator)


def sampling_law(
    settings: GenerateConfig, config: ModelConfig, revision: str | None = None
) -> dict[str, float | int | None]:
    """What is sampled from the softmax: temperature, top_p and top_k (None for all tokens) of ``SampleRequest``.

    Those in ``settings.checkpoint_defaults`` are the checkpoint's own where its generation_config.json has them and was
    written by transformers 4.50 or newer: what ``generate`` of transformers 4.50 to 4.57 does unasked where it is given
    the library's default, for temperature and top_p 1.

    Raises:
        ModelError: The checkpoint's configuration cannot be read.
    """
    law = {"temperature": settings.temperature, "top_p": settings.top_p, "top_k": None}
    if settings.checkpoint_defaults:
        declared = _generation_config(config, revision)
        written_by = Version(Version(declared.transformers_version).base_version)
        names = settings.checkpoint_defaults if written_by >= Version("4.50") else []
        own = {name: getattr(declared, name, None) for name in names}
        # Of top_k, 0 means all tokens.
        law |= {name: value for name, value in own.items() if value}
    return law
