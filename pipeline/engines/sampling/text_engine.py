"""The interface of everything that samples answers: Hugging Face models, vLLM, and servers over HTTP."""

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
from pipeline.engines.sampling.generate import Generation, generation_from_tokens
from pipeline.errors import ModelError, PipelineError, first_line


class EngineError(PipelineError):
    """An engine cannot do what it was asked for, or a server failed for good; the message says why."""


@dataclass(frozen=True)
class SampleRequest:
    """Independent samples to draw behind one prompt; ``key`` names the request among those of one call."""

    key: str
    prompt_ids: list[int]  # the encoded request, up to where the answer starts
    seeds: dict[int, int]  # seed of each sample's own random stream, by sample index
    max_new_tokens: int  # the stop token included
    temperature: float = 1.0
    top_p: float = 1.0
    skip_special_tokens: bool = True  # whether special tokens other than the stop token are left out of the text
    constraint: TrieConstraint | None = None  # restricts every step to what a trie holds. Hugging Face engine only
    top_k: int | None = None


@dataclass(frozen=True)
class Sample:
    """One finished sample of the request ``key``."""

    key: str
    sample_index: int
    generation: Generation  # its ``seed`` is the sample's own, whatever the engine drew with


class TextEngine(Protocol):
    """A model under a condition, ready to sample; samples are handed over as they are finished."""

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[list[Sample]]:
        """Draw every sample of every request; hand them over in whole groups (``seed_groups``) as they are finished.

        A sample depends on its request, index and seed, never on which others are still missing. Raises EngineError;
        what was handed over before stays valid.
        """
        ...


def seed_groups(seeds: Mapping[int, int], size: int) -> list[dict[int, int]]:
    """Split seeds by sample index into requests by index // ``size``, so that a resumed run asks the same."""
    groups: dict[int, dict[int, int]] = {}
    for index in sorted(seeds):
        groups.setdefault(index // size, {})[index] = seeds[index]
    return list(groups.values())


def checked_samples(
    request: SampleRequest,
    group: Mapping[int, int],
    answers: Sequence[tuple[Sequence[int], str]],
    tokenizer: PreTrainedTokenizerBase,
    stop_ids: set[int],
) -> list[Sample]:
    """The samples of a group from another engine's answers: their tokens, and why each ended.

    Raises EngineError where one is missing, ends for another reason than its tokens say, or is cut before the limit.
    """
    if len(answers) != len(group):
        raise EngineError(f"the engine returned {len(answers)} of {len(group)} samples of {request.key}")
    samples, limit = [], request.max_new_tokens
    for (index, seed), (tokens, reason) in zip(group.items(), answers, strict=True):
        answer = generation_from_tokens(tokenizer, tokens, seed, stop_ids, request.skip_special_tokens)
        if answer.finish_reason != reason or len(tokens) > limit:
            raise EngineError(
                f"sample {index} of {request.key} ended for the reason {reason!r} after {len(tokens)} of {limit} "
                f"tokens, which would end for {answer.finish_reason!r}"
            )
        if reason == "length" and len(tokens) < limit:
            raise EngineError(
                f"sample {index} of {request.key} was cut after {len(tokens)} of {limit} tokens; does the context hold "
                f"the prompt's {len(request.prompt_ids)} and the answer?"
            )
        samples.append(Sample(request.key, index, answer))
    return samples


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


def checkpoint_stop_ids(config: ModelConfig, tokenizer: PreTrainedTokenizerBase, revision: str | None) -> set[int]:
    """``stop_ids`` of a checkpoint whose model is not loaded in this process. Raises ModelError."""
    declared = SimpleNamespace(generation_config=_generation_config(config, revision))
    return stop_ids(declared, tokenizer, config.terminator)


def _overrides_requests(declared: GenerationConfig) -> bool:
    """Whether ``generate`` of transformers 4.50 to 4.57 takes a checkpoint's value where a request equals the library's
    default: where a version from 4.50 on wrote its generation_config.json."""
    return Version(Version(declared.transformers_version).base_version) >= Version("4.50")


def sampling_law(
    settings: GenerateConfig, config: ModelConfig, revision: str | None = None
) -> dict[str, float | int | None]:
    """What is sampled from the softmax: temperature, top_p and top_k (None for all tokens) of ``SampleRequest``.

    Those in ``settings.checkpoint_defaults`` are the checkpoint's own where ``_overrides_requests``. Raises ModelError.
    """
    law = {"temperature": settings.temperature, "top_p": settings.top_p, "top_k": None}
    if settings.checkpoint_defaults:
        declared = _generation_config(config, revision)
        if _overrides_requests(declared):
            own = {name: getattr(declared, name, None) for name in settings.checkpoint_defaults}
            # Of top_k, 0 means all tokens.
            law |= {name: value for name, value in own.items() if value}
    return law


GREEDY: dict[str, float | int | None] = {"temperature": 1.0, "top_p": 1.0, "top_k": 1}


def task_law(decoding: str, config: ModelConfig, revision: str | None = None) -> dict[str, float | int | None]:
    """What GSM8K's answers are sampled from: "greedy", or "checkpoint", what lm-evaluation-harness gets, which asks not
    to sample. Where ``_overrides_requests``, do_sample and top_k are then the checkpoint's, while temperature and
    top-p, which are passed as None, stay off. Raises ModelError."""
    if decoding == "checkpoint":
        declared = _generation_config(config, revision)
        if declared.do_sample and _overrides_requests(declared):
            # Without a top_k of the checkpoint's, the library's own default.
            return {**GREEDY, "top_k": declared.top_k or 50}
    return GREEDY
