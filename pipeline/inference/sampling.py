"""Answers of opened weights to one request: drawn as the stage ``generate`` draws them, or their law computed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.axes.laws.law_metrics import LawResult, evaluate_law, is_numeric
from pipeline.axes.structured.fidelity import wasserstein_1_deviations
from pipeline.axes.structured.wasserstein import PromptResult, evaluate_prompt, perfect_sampler_replicates
from pipeline.config.evaluation import GenerateConfig
from pipeline.config.params import Params
from pipeline.core.exact.number_law import NumberLawBounds
from pipeline.core.prompts.number_answers import Invalid, parse_sample
from pipeline.core.prompts.open_ended import open_prompt
from pipeline.core.prompts.structured import Prompt, parse_prompt
from pipeline.core.prompts.text_answers import normalise_answer
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.intervals import interval_of_deviations, percentile_interval
from pipeline.errors import ConfigError
from pipeline.inference.opening import Weights, context_length
from pipeline.sources.own_laws import own_prompts

if TYPE_CHECKING:
    from pipeline.engines.loading.conditioned_model import ConditionedModel
    from pipeline.engines.sampling.text_engine import Sample, SampleRequest, TextEngine

FIRST_BLOCK, LARGEST_BLOCK = 32, 1024
"""Samples that are drawn before any is handed on: few at first, so that a reader sees some, then twice as many."""


@dataclass(frozen=True)
class Request:
    """A request for answers."""

    text: str
    """The user message."""
    prompt: Prompt | None
    """The structured prompt, or that of a law of one's own, with this text; None for other texts."""
    axis: str
    """Whose prompt it is: "structured", "laws" or "open"."""

    @classmethod
    def of(cls, text: str, params: Params) -> "Request":
        """The request with this text.

        Raises:
            ConfigError: A file of ``params.laws`` is no law's.
            ArtifactError: A table of one is missing or unreadable.
            DomainError: It is a structured request for a law that does not exist.
        """
        _, own = own_prompts(params.laws)
        if (prompt := next((each for each in own if each.text == text.strip()), None)) is not None:
            return cls(text, prompt, "laws")
        return cls(text, prompt := parse_prompt(text), "structured" if prompt else "open")

    @property
    def is_categorical(self) -> bool:
        """Whether its answers are strings with known probabilities."""
        return self.prompt is not None and not is_numeric(self.prompt.law)

    def settings(self, params: Params) -> GenerateConfig:
        """The sampling settings that are the defaults."""
        return params.generate.structured if self.prompt else params.generate.open

    def row(self, sample: "Sample") -> dict[str, Any]:
        """A sample as a row of a file: what was generated, and the answer in it or why there is none."""
        generation, prompt = sample.generation, self.prompt
        if prompt is None or self.is_categorical:
            answer = normalise_answer(generation.text)
            if self.is_categorical and not isinstance(answer, Invalid) and answer not in prompt.law.strings:
                answer = Invalid.OUT_OF_SUPPORT
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
    """The samples of a request in the order of their indices, handed on as soon as all before them are drawn."""
    left, size = list(request.seeds.items()), FIRST_BLOCK
    while left:
        block, left = left[:size], left[size:]
        drawn: dict[int, Sample] = {}
        due = iter([index for index, _ in block])
        wanted = next(due)
        for samples in engine.sample([replace(request, seeds=dict(block))]):
            drawn |= {sample.sample_index: sample for sample in samples}
            while wanted in drawn:
                yield drawn.pop(wanted)
                wanted = next(due, -1)
        size = min(2 * size, LARGEST_BLOCK)


@dataclass(frozen=True)
class Distance:
    """How far the valid answers are from the law that was asked for."""

    result: PromptResult
    """The parsed answers and normalised W1 (Eq. 5)."""
    interval: tuple[float, float]
    """95% interval of W1 for redrawing the answers; NaN with fewer than two valid ones."""
    floor: float
    """Mean normalised W1 of perfect samplers of as many valid answers; NaN without any."""
    floor_interval: tuple[float, float]
    """Where 95% of them lie."""


def distance(prompt: Prompt, weights: Weights, params: Params, texts: Sequence[str]) -> Distance:
    """The figures of the stage eval-structured, with its random streams."""
    result, settings, name = evaluate_prompt(texts, prompt.law), params.evaluate, prompt.prompt_id
    rng = random_stream(params.seed, "half samples", "structured", weights.model, weights.condition, name)
    deviations = wasserstein_1_deviations(result.samples, prompt.law, rng)
    interval = interval_of_deviations(result.wasserstein_1_normalised, deviations)
    size = len(result.samples)
    floors = np.full(1, np.nan)
    if size:
        rng = random_stream(params.seed, "floor", "structured", name, size)
        floors = perfect_sampler_replicates(prompt.law, size, settings.floor_replicates, rng)
    return Distance(result, interval, float(floors.mean()), percentile_interval(floors))


def categories(prompt: Prompt, weights: Weights, params: Params, texts: Sequence[str]) -> LawResult:
    """The figures of the stage eval-laws for a law of categories, with its random streams."""
    return evaluate_law(
        prompt,
        texts,
        seed=params.seed,
        names=(weights.model, weights.condition),
        floor_replicates=params.evaluate.floor_replicates,
    )


def exact_bounds(
    request: Request,
    weights: Weights,
    loaded: "ConditionedModel",
    params: Params,
    max_new_tokens: int | None,
    on_round: Callable[[NumberLawBounds], None],
) -> NumberLawBounds:
    """Bounds on the law over plain decimals at temperature 1, as the stage exact_structured computes them.

    Raises:
        ConfigError: The tokenizer has no rule for digits.
    """
    from pipeline.core.exact.number_law import bound_number_law, candidate_tokens
    from pipeline.engines.loading.digit_rule import answer_tokens
    from pipeline.engines.scoring.tree_scorer import TreeScorer

    _, rule = answer_tokens(loaded.tokenizer, weights.config.terminator, params.discretize.eval.num_decimals)
    if rule is None:
        raise ConfigError(f"--exact: the tokenizer of {weights.model} does not write numbers digit by digit")
    score = TreeScorer(loaded.model).path_scorer(loaded.encode(request.text), candidate_tokens(rule))
    return bound_number_law(
        request.prompt.law,
        rule,
        score,
        width=params.evaluate.bounds_width,
        max_positions=params.evaluate.bounds_max_positions,
        max_new_tokens=max_new_tokens or request.settings(params).max_new_tokens,
        on_round=on_round,
    )
