"""Checks that an engine samples the model's own law: the softmax at temperature 1, whole and nothing else.

Checkpoints come with sampling defaults of their own (``generation_config.json``: top_k, top_p, temperature),
which some engines apply unasked. They leave single samples plausible and every statistic wrong.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from scipy.stats import chi2, ncx2
from transformers import PreTrainedTokenizerBase

from pipeline.core.statistics.law_check import LawTest, compare_with_law
from pipeline.engines.loading.model import next_log_probabilities
from pipeline.engines.sampling.generate import sample_seeds
from pipeline.engines.sampling.text_engine import Sample, SampleRequest, TextEngine
from pipeline.errors import ModelError

NUM_SAMPLES = 2000
# A sound engine is refused once in 10,000 runs.
SIGNIFICANCE = 1e-4
NUM_LONG_SAMPLES, LONGEST = 32, 48
# A bfloat16 logit between 16 and 32 is rounded to the next 1/8. So the same weights run in two ways (with and without
# a cache, other kernels, experts in another format) give probabilities that differ by some tenth, and none is wrong.
RELATIVE_ERROR = {"float32": 0.0, "bfloat16": 0.1}
"""Root mean square of what an engine's probabilities may differ by, as a share of each, by dtype of the model."""

Outcome = tuple[str, str]
"""Text and finish reason ("stop" or "length")."""

# Text of bytes that are no character yet: which bytes they were cannot be told.
_UNDECODABLE = "\N{REPLACEMENT CHARACTER}"
# First tokens behind which second tokens are enumerated; a cell needs ten times as much.
_LEAST_FIRST = 0.1 * 5 / NUM_SAMPLES
_LEAST_OUTCOME = {1: 1e-9, 2: 1e-6}


def _add(
    law: dict[Outcome, float],
    tokenizer: PreTrainedTokenizerBase,
    prefix: Sequence[int],
    probabilities: torch.Tensor,
    stop_ids: set[int],
    least: float,
) -> None:
    """Add the outcomes of one more token, float64[V] joint probabilities, behind ``prefix``."""
    tokens = torch.nonzero(probabilities >= least)[:, 0].tolist()
    kept = [[*prefix, *([] if token in stop_ids else [token])] for token in tokens]
    texts = tokenizer.batch_decode(kept, skip_special_tokens=False)
    for token, text, probability in zip(tokens, texts, probabilities[tokens].tolist(), strict=True):
        if _UNDECODABLE not in text:
            outcome = (text, "stop" if token in stop_ids else "length")
            law[outcome] = law.get(outcome, 0.0) + probability


@torch.inference_mode()
def answer_law(
    model: torch.nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    prompt_ids: Sequence[int],
    stop_ids: set[int],
    num_tokens: int,
) -> dict[Outcome, float]:
    """Exact law of what a generation of at most ``num_tokens`` tokens says, at temperature 1.

    Args:
        model: The reference model, whose softmax is in float64.
        tokenizer: Its tokenizer; special tokens other than the stop token are part of a text.
        prompt_ids: The request.
        stop_ids: Tokens that end a generation.
        num_tokens: 1 or 2.

    Returns:
        Probability by text and finish reason. Rare outcomes and such as end within a character are left
        out; they are what is missing to 1.
    """
    if num_tokens not in _LEAST_OUTCOME:
        raise ValueError(f"num_tokens must be 1 or 2, got {num_tokens}")
    least = _LEAST_OUTCOME[num_tokens]
    first = next_log_probabilities(model, [prompt_ids])[0].exp()
    law: dict[Outcome, float] = {}
    if num_tokens == 1:
        _add(law, tokenizer, [], first, stop_ids, least)
        return law
    stops = torch.tensor(sorted(stop_ids))
    law[("", "stop")] = float(first[stops].sum())
    first[stops] = 0
    tokens = torch.nonzero(first >= _LEAST_FIRST)[:, 0].tolist()
    second = next_log_probabilities(model, [[*prompt_ids, token] for token in tokens]).exp() if tokens else []
    for token, row in zip(tokens, second, strict=True):
        _add(law, tokenizer, [token], first[token] * row, stop_ids, least)
    return law


def _samples(
    engine: TextEngine,
    key: str,
    prompt_ids: Sequence[int],
    messages: Sequence[Mapping[str, str]],
    num_samples: int,
    max_new_tokens: int,
    seed: int,
    model: str,
) -> list[Sample]:
    seeds = dict(enumerate(sample_seeds(seed, ("preflight", model, key), num_samples)))
    request = SampleRequest(
        key=key,
        prompt_ids=list(prompt_ids),
        messages=[dict(message) for message in messages],
        seeds=seeds,
        max_new_tokens=max_new_tokens,
        temperature=1.0,
        top_p=1.0,
        skip_special_tokens=False,
    )
    return [sample for finished in engine.sample([request]) for sample in finished]


def p_value_within(test: LawTest, relative_error: float) -> float:
    """The p-value where the engine's probabilities p may be off by ``relative_error`` times p, root mean square.

    The statistic is then noncentral chi-square, with noncentrality N * relative_error^2. Outcomes that the law leaves
    out have no such excuse: a p-value that their number gave stays.
    """
    if relative_error == 0 or math.isnan(test.statistic):
        return test.p_value
    if test.p_value < chi2.sf(test.statistic, test.degrees_of_freedom):
        return test.p_value
    noncentrality = test.num_samples * relative_error**2
    return max(test.p_value, float(ncx2.sf(test.statistic, test.degrees_of_freedom, noncentrality)))


def check_law(
    engine: TextEngine,
    law: Mapping[Outcome, float],
    prompt_ids: Sequence[int],
    messages: Sequence[Mapping[str, str]],
    *,
    num_tokens: int,
    seed: int,
    model: str,
    num_samples: int = NUM_SAMPLES,
    relative_error: float = 0.0,
) -> dict[str, Any]:
    """Chi-square test of an engine's answers of at most ``num_tokens`` tokens against their exact law.

    Args:
        engine: Opened on the base model.
        law: From ``answer_law`` with the same request and number of tokens.
        prompt_ids: The request.
        messages: The request as a chat.
        num_tokens: As the law's.
        seed: Root seed; ``model`` names the samples' streams.
        model: Name of the model.
        num_samples: Samples to draw.
        relative_error: One of ``RELATIVE_ERROR``.

    Returns:
        The test's numbers; ``statistic`` is None where one outcome has nearly all of the probability.

    Raises:
        ModelError: p < ``SIGNIFICANCE`` (``p_value_within``).
    """
    samples = _samples(engine, f"law-{num_tokens}", prompt_ids, messages, num_samples, num_tokens, seed, model)
    counts = Counter((sample.generation.text, sample.generation.finish_reason) for sample in samples)
    test = compare_with_law(counts, law)
    p_value = p_value_within(test, relative_error)
    if p_value < SIGNIFICANCE:
        outcome, observed, expected = test.worst
        named = "rare outcomes together" if outcome is None else f"{outcome[0]!r} ({outcome[1]})"
        raise ModelError(
            f"{model}: the samples of {num_tokens} token(s) do not follow the model's softmax at temperature 1 "
            f"(p = {p_value:.1g}, N = {test.num_samples}): {named} came up {observed} times, expected "
            f"{expected:.1f}; does the engine apply sampling defaults of the checkpoint's generation_config.json?"
        )
    return {
        "num_samples": test.num_samples,
        "degrees_of_freedom": test.degrees_of_freedom,
        "statistic": None if math.isnan(test.statistic) else test.statistic,
        "p_value": p_value,
        "significance": SIGNIFICANCE,
        "relative_error": relative_error,
    }


def check_endings(
    engine: TextEngine,
    tokenizer: PreTrainedTokenizerBase,
    prompt_ids: Sequence[int],
    messages: Sequence[Mapping[str, str]],
    stop_ids: set[int],
    *,
    seed: int,
    model: str,
) -> dict[str, Any]:
    """Longer answers end at the first stop token or at the limit, and say which.

    Returns:
        Answers drawn, and how many of them ended with a stop token.

    Raises:
        ModelError: An answer goes on behind a stop token, or is cut before the limit.
    """
    samples = _samples(engine, "endings", prompt_ids, messages, NUM_LONG_SAMPLES, LONGEST, seed, model)
    stops = [tokenizer.decode([token]) for token in sorted(stop_ids)]
    for generation in (sample.generation for sample in samples):
        found = next((stop for stop in stops if stop in generation.text), None)
        if found is not None:
            raise ModelError(f"{model}: generation went on behind the stop token {found!r}: {generation.text[:80]!r}")
        cut = generation.finish_reason == "length" and generation.num_tokens != LONGEST
        if cut or generation.num_tokens > LONGEST:
            raise ModelError(
                f"{model}: an answer of {generation.num_tokens} tokens has the finish reason "
                f"{generation.finish_reason!r} where at most {LONGEST} tokens were asked for"
            )
    return {
        "num_samples": len(samples),
        "max_new_tokens": LONGEST,
        "num_stopped": sum(sample.generation.finish_reason == "stop" for sample in samples),
    }
