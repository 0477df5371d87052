"""Answers of opened weights to one request, drawn as the stage ``generate`` draws them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pipeline.axes.laws.law_metrics import is_numeric
from pipeline.axes.structured.fidelity import wasserstein_1_deviations
from pipeline.axes.structured.wasserstein import PromptResult, evaluate_prompt, perfect_sampler_replicates
from pipeline.config.evaluation import GenerateConfig
from pipeline.config.params import Params
from pipeline.core.prompts.number_answers import Invalid, parse_sample
from pipeline.core.prompts.open_ended import open_prompt
from pipeline.core.prompts.structured import Prompt, parse_prompt
from pipeline.core.prompts.text_answers import normalise_answer
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.intervals import interval_of_deviations
from pipeline.errors import ConfigError
from pipeline.inference.opening import Weights, context_length
from pipeline.sources.own_laws import own_prompts

if TYPE_CHECKING:
    from pipeline.engines.loading.conditioned_model import ConditionedModel
    from pipeline.engines.sampling.text_engine import Sample, SampleRequest, TextEngine

BLOCK = 256
"""Samples that are drawn before any is handed on."""


@dataclass(frozen=True)
class Request:
    """A request for answers."""

    text: str
    prompt: Prompt | None
    """The structured prompt, or that of a law of one's own over numbers, with this text; None for other texts."""
    axis: str
    """Whose random streams it has: "structured", "laws" or "open"."""

    @classmethod
    def of(cls, text: str, params: Params) -> "Request":
        """The request with this text. Raises PipelineError for a law that does not exist or cannot be read."""
        _, own = own_prompts(params.laws)
        for prompt in own:
            if prompt.text == text.strip() and is_numeric(prompt.law):
                return cls(text, prompt, "laws")
        return cls(text, prompt := parse_prompt(text), "structured" if prompt else "open")

    def settings(self, params: Params) -> GenerateConfig:
        """The sampling settings that are the defaults."""
        return params.generate.structured if self.prompt else params.generate.open

    def row(self, sample: "Sample") -> dict[str, Any]:
        """A sample as a row of a file: what was generated, and the answer in it or why there is none."""
        generation, prompt = sample.generation, self.prompt
        if prompt is None:
            answer = normalise_answer(generation.text)
        else:
            answer = parse_sample(generation.text, prompt.support, prompt.law.integer)
        invalid = answer.value if isinstance(answer, Invalid) else None
        return {
            "sample_index": sample.sample_index,
            "seed": generation.seed,
            "text": generation.text,
            "num_tokens": generation.num_tokens,
            "finish_reason": generation.finish_reason,
            "answer": None if invalid else answer,
            "invalid": invalid,
        }


def sample_request(
    request: Request,
    weights: Weights,
    loaded: "ConditionedModel",
    params: Params,
    num_samples: int,
    seed: int,
    **law: float | None,
) -> "SampleRequest":
    """What the engine is asked for. With the settings of ``params``, the samples are those of the stage ``generate``.

    ``seed`` is the root of their random streams; ``law`` has temperature (0 for the most probable token at every step),
    top_p and max_new_tokens, None for those of ``params``. Raises ConfigError where the context is too short.
    """
    from pipeline.engines.sampling.generate import sample_seeds
    from pipeline.engines.sampling.text_engine import SampleRequest, sampling_law

    settings, given = request.settings(params), {key: value for key, value in law.items() if value is not None}
    most = int(given.pop("max_new_tokens", settings.max_new_tokens))
    drawn = sampling_law(settings, weights.config) | given
    if drawn["temperature"] == 0:
        drawn |= {"temperature": 1.0, "top_k": 1}
    ids, limit = loaded.encode(request.text), context_length(loaded)
    if limit is not None and len(ids) + most > limit:
        raise ConfigError(
            f"the request has {len(ids)} tokens and its answer up to {most} (--max-new-tokens); "
            f"{weights.model} takes {limit} together"
        )
    # As the pipeline names the prompt, and so its random streams.
    name = (request.prompt or open_prompt(request.text)).prompt_id
    seeds = sample_seeds(seed, (request.axis, weights.model, weights.condition, name), num_samples)
    return SampleRequest(name, ids, dict(enumerate(seeds)), most, **drawn)


def draw(engine: "TextEngine", request: "SampleRequest") -> Iterator["Sample"]:
    """The samples of a request in the order of their indices, block by block."""
    seeds = list(request.seeds.items())
    for start in range(0, len(seeds), BLOCK):
        block = replace(request, seeds=dict(seeds[start : start + BLOCK]))
        samples = [sample for part in engine.sample([block]) for sample in part]
        yield from sorted(samples, key=lambda sample: sample.sample_index)


class Distance(NamedTuple):
    """How far the valid answers are from the law that was asked for; NaN where there are too few."""

    result: PromptResult
    interval: tuple[float, float]
    """95% interval of normalised W1 for redrawing the answers."""
    floors: np.ndarray
    """Normalised W1 of perfect samplers of as many valid answers."""


def distance(prompt: Prompt, weights: Weights, params: Params, texts: Sequence[str]) -> Distance:
    """The figures of the stage eval-structured, with its random streams."""
    result, name = evaluate_prompt(texts, prompt.law), prompt.prompt_id
    rng = random_stream(params.seed, "half samples", "structured", weights.model, weights.condition, name)
    deviations = wasserstein_1_deviations(result.samples, prompt.law, rng)
    interval = interval_of_deviations(result.wasserstein_1_normalised, deviations)
    size, floors = len(result.samples), np.full(1, np.nan)
    if size:
        rng = random_stream(params.seed, "floor", "structured", name, size)
        floors = perfect_sampler_replicates(prompt.law, size, params.evaluate.floor_replicates, rng)
    return Distance(result, interval, floors)
