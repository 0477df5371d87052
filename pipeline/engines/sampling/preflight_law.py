"""Checks that an engine samples the model's own law: the softmax at temperature 1, whole and nothing else.

Checkpoints come with sampling defaults of their own (``generation_config.json``: top_k, top_p, temperature), which some
engines apply unasked. They leave single samples plausible and every statistic wrong. A law with one likely answer hides
that, so the requests are those with the most random answers, and the checks say how probably they would notice.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.law_check import LawCells, pooled_p_values
from pipeline.engines.loading.model import next_log_probabilities
from pipeline.engines.sampling.generate import sample_seeds
from pipeline.engines.sampling.text_engine import SampleRequest, TextEngine
from pipeline.errors import ModelError

LAW_TOKENS = (1, 2)
"""Tokens of the answers whose law is checked."""
NUM_SAMPLES = 2000
# A sound engine is refused once in 10,000 runs, whatever the number of tests.
SIGNIFICANCE = 1e-4
POWER_DRAWS = 2000
# Less probable than that to be noticed, a wrong engine is worth a warning.
LEAST_POWER = 0.9
# Requests of each table whose laws are looked at, evenly spaced, to choose the most random ones.
MOST_CANDIDATES = 48
# A bfloat16 logit between 16 and 32 is rounded to the next 1/8. So the same weights run in two ways (with and without
# a cache, other kernels, experts in another format) give probabilities that differ by some tenth, and none is wrong.
RELATIVE_ERROR = {"float32": 0.0, "bfloat16": 0.1}
"""Root mean square of what an engine's probabilities may differ by, as a share of each, by dtype of the model."""

Law = dict[tuple[str, str], float]
"""Probability by text and finish reason ("stop" or "length")."""
Requests = Mapping[str, Sequence[int]]
"""Token ids of requests by prompt id."""

# Text of bytes that are no character yet: which bytes they were cannot be told.
_UNDECODABLE = "\N{REPLACEMENT CHARACTER}"
# First tokens behind which second tokens are enumerated; a cell needs ten times as much. Real vocabularies have
# hundreds of them, and each costs a forward pass of the request.
_LEAST_FIRST, _MOST_FIRST = 0.1 * 5 / NUM_SAMPLES, 64
_LEAST_OUTCOME = {1: 1e-9, 2: 1e-6}


def sharpened(law: torch.Tensor, temperature: float) -> torch.Tensor:
    """What sampling at a temperature makes of a softmax, float64[V]."""
    weights = law ** (1 / temperature)
    return weights / weights.sum()


def nucleus(law: torch.Tensor, top_p: float) -> torch.Tensor:
    """What sampling from the smallest most probable set with this mass makes of a softmax, float64[V]."""
    ordered, tokens = law.sort(descending=True)
    kept = ordered.masked_fill(ordered.cumsum(0) - ordered >= top_p, 0.0)
    return torch.zeros_like(law).scatter_(0, tokens, kept) / kept.sum()


def most_probable(law: torch.Tensor, top_k: int) -> torch.Tensor:
    """What sampling from the ``top_k`` most probable tokens makes of a softmax, float64[V]."""
    kept = law.masked_fill(law < law.topk(min(top_k, len(law))).values[-1], 0.0)
    return kept / kept.sum()


WRONG_SAMPLERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "top_p 0.95": partial(nucleus, top_p=0.95),
    "top_k 50": partial(most_probable, top_k=50),
    "temperature 0.8": partial(sharpened, temperature=0.8),
    "temperature 1.25": partial(sharpened, temperature=1.25),
}
"""Wrong engines for which the checks' power is computed: defaults of checkpoints and libraries."""


def most_random(model: torch.nn.Module, requests: Requests, count: int) -> dict[str, Sequence[int]]:
    """Of ``MOST_CANDIDATES`` requests at most, evenly spaced, those whose next token has the greatest entropy."""
    keys, step = list(requests), max(len(requests) / MOST_CANDIDATES, 1)
    entropies = {}
    for key in (keys[int(index * step)] for index in range(min(len(keys), MOST_CANDIDATES))):
        law = next_log_probabilities(model, [requests[key]]).exp()
        entropies[key] = float(torch.special.entr(law).sum())
    return {key: requests[key] for key in sorted(entropies, key=lambda key: -entropies[key])[:count]}


def _add(
    laws: Sequence[Law],
    tokenizer: PreTrainedTokenizerBase,
    prefix: Sequence[int],
    probabilities: Sequence[torch.Tensor],
    stop_ids: set[int],
    least: float,
) -> None:
    """Add outcomes of a token behind ``prefix``, float64[V] joint probabilities, of ``least`` in the first law."""
    tokens = torch.nonzero(probabilities[0] >= least)[:, 0]
    if not len(tokens):
        # The tokenizer makes one empty text of no rows.
        return
    kept = [[*prefix, *([] if token in stop_ids else [token])] for token in tokens.tolist()]
    texts = tokenizer.batch_decode(kept, skip_special_tokens=False)
    rows = torch.stack([joint[tokens] for joint in probabilities], dim=1).tolist()
    for token, text, row in zip(tokens.tolist(), texts, rows, strict=True):
        if _UNDECODABLE not in text:
            outcome = (text, "stop" if token in stop_ids else "length")
            for law, probability in zip(laws, row, strict=True):
                law[outcome] = law.get(outcome, 0.0) + probability


def answer_laws(
    model: torch.nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    prompt_ids: Sequence[int],
    stop_ids: set[int],
    num_tokens: int,
    samplers: Sequence[Callable[[torch.Tensor], torch.Tensor]] = (),
) -> list[Law]:
    """Exact laws of a generation of at most ``num_tokens`` (1 or 2): the model's own, and of each of ``samplers``.

    A sampler is what a wrong engine makes of each step's softmax, float64[V]. Special tokens other than the stop token
    are part of a text. Outcomes that are rare under the model's own law, or end within a character, are what is missing
    to 1.
    """

    def steps(law: torch.Tensor) -> list[torch.Tensor]:
        return [law, *(sampler(law) for sampler in samplers)]

    firsts = steps(next_log_probabilities(model, [prompt_ids])[0].exp())
    laws: list[Law] = [{} for _ in firsts]
    least = _LEAST_OUTCOME[num_tokens]
    if num_tokens == 1:
        _add(laws, tokenizer, [], firsts, stop_ids, least)
        return laws
    stops = torch.tensor(sorted(stop_ids))
    for law, first in zip(laws, firsts, strict=True):
        law["", "stop"] = float(first[stops].sum())
        first[stops] = 0
    common = firsts[0].topk(min(_MOST_FIRST, len(firsts[0])))
    tokens = common.indices[common.values >= _LEAST_FIRST].sort().values.tolist()
    seconds = next_log_probabilities(model, [[*prompt_ids, token] for token in tokens]).exp() if tokens else ()
    for token, second in zip(tokens, seconds, strict=True):
        joints = [first[token] * law for first, law in zip(firsts, steps(second), strict=True)]
        _add(laws, tokenizer, [token], joints, stop_ids, least)
    return laws


@dataclass(frozen=True)
class LawCheck:
    """The law of the answers of at most ``num_tokens`` to a request, to be compared with an engine's."""

    request: str
    prompt_ids: Sequence[int]
    num_tokens: int
    cells: LawCells
    """Of the test of ``NUM_SAMPLES`` samples."""
    wrong: dict[str, np.ndarray]
    """float64[C + 1], what the cells would have of an engine that is wrong, by what is wrong with it."""

    @property
    def key(self) -> str:
        """Names its samples."""
        return f"law-{self.num_tokens}-{self.request}"


def law_checks(
    model: torch.nn.Module, tokenizer: PreTrainedTokenizerBase, requests: Requests, stop_ids: set[int]
) -> list[LawCheck]:
    """The checks of an engine, ``LAW_TOKENS`` of each request, from the model itself."""
    checks = []
    for num_tokens in LAW_TOKENS:
        for name, ids in requests.items():
            own, *wrong = answer_laws(model, tokenizer, ids, stop_ids, num_tokens, list(WRONG_SAMPLERS.values()))
            cells = LawCells(own, NUM_SAMPLES)
            masses = dict(zip(WRONG_SAMPLERS, map(cells.masses, wrong), strict=True))
            checks.append(LawCheck(name, ids, num_tokens, cells, masses))
    return checks


def _adjusted_p_values(
    checks: Sequence[LawCheck], observed: Sequence[np.ndarray], relative_error: float
) -> tuple[np.ndarray, np.ndarray]:
    """P-values of D runs: of each check, float64[T, D], and of all statistics together, float64[D].

    Corrected (Bonferroni): half of the significance is for the checks one by one, half for their sum.
    ``observed`` has int64[D, C + 1] samples in the cells of each check.
    """
    pairs = list(zip(checks, observed, strict=True))
    single = np.stack([check.cells.p_values(counts, relative_error) for check, counts in pairs])
    statistics = np.stack([check.cells.statistics(counts) for check, counts in pairs])
    pooled = pooled_p_values([check.cells for check in checks], statistics, relative_error)
    return np.minimum(single * 2 * len(checks), 1.0), np.minimum(pooled * 2, 1.0)


def power(checks: Sequence[LawCheck], seed: int, relative_error: float = 0.0) -> dict[str, float]:
    """How probably ``check_laws`` refuses an engine, by what is wrong with it; by ``POWER_DRAWS`` simulated runs."""
    powers = {}
    for name in checks[0].wrong:
        observed = [
            check.cells.draw(check.wrong[name], POWER_DRAWS, random_stream(seed, "power", check.key, name))
            for check in checks
        ]
        single, pooled = _adjusted_p_values(checks, observed, relative_error)
        powers[name] = float((np.minimum(single.min(axis=0), pooled) < SIGNIFICANCE).mean())
    return powers


def power_warning(powers: Mapping[str, float]) -> str | None:
    """One sentence where the checks would hardly notice a wrong engine; None where all is well."""
    missed = [f"{name} (noticed in {value:.0%} of runs)" for name, value in powers.items() if value < LEAST_POWER]
    if not missed:
        return None
    return (
        f"samples of the model's answers, the most random ones, would hardly show an engine's {', '.join(missed)}; "
        "that its samples pass says little about that"
    )


def _counts(engine: TextEngine, checks: Sequence[LawCheck], seed: int, model: str) -> dict[str, Counter]:
    """Answers of the engine by text and finish reason, by the checks' keys."""
    counts: dict[str, Counter] = {check.key: Counter() for check in checks}
    requests = [
        SampleRequest(
            check.key,
            list(check.prompt_ids),
            dict(enumerate(sample_seeds(seed, ("preflight", model, check.key), NUM_SAMPLES))),
            check.num_tokens,
            skip_special_tokens=False,
        )
        for check in checks
    ]
    for samples in engine.sample(requests):
        for sample in samples:
            counts[sample.key][sample.generation.text, sample.generation.finish_reason] += 1
    return counts


def check_laws(
    engine: TextEngine, checks: Sequence[LawCheck], *, seed: int, model: str, relative_error: float = 0.0
) -> dict[str, Any]:
    """Chi-square tests of an engine's answers against their exact laws, one by one and together.

    ``seed``, ``model`` and the checks' keys name the samples' streams; ``relative_error`` is one of ``RELATIVE_ERROR``.

    Returns:
        ``p_value`` (corrected for their number) and ``pooled_p_value`` (twice that of the sum) of all tests, and
        those of each, uncorrected; ``statistic`` is None where one outcome has nearly all of the probability.

    Raises:
        ModelError: ``p_value`` < ``SIGNIFICANCE``, or samples are missing.
    """
    counts = list(_counts(engine, checks, seed, model).values())
    if other := [count.total() for count in counts if count.total() != NUM_SAMPLES]:
        raise ModelError(f"{model}: the engine gave {other[0]} of {NUM_SAMPLES} samples")
    observed = [check.cells.masses(count)[None] for check, count in zip(checks, counts, strict=True)]
    single, (pooled,) = _adjusted_p_values(checks, observed, relative_error)
    tests = [check.cells.test(count, relative_error) for check, count in zip(checks, counts, strict=True)]
    p_value = min(single.min(), pooled)
    if p_value < SIGNIFICANCE:
        index = int(single[:, 0].argmin())
        outcome, seen, expected = tests[index].worst
        named = "rare outcomes together" if outcome is None else f"{outcome[0]!r} ({outcome[1]})"
        raise ModelError(
            f"{model}: the samples do not follow the model's softmax at temperature 1 (p = {p_value:.1g}); of "
            f"{NUM_SAMPLES} answers of {checks[index].num_tokens} token(s) to {checks[index].request}, {named} "
            f"came up {seen} times, expected {expected:.1f}; does the engine apply sampling defaults of the "
            "checkpoint's generation_config.json, or a server those that its engine.openai.dialect leaves unsaid?"
        )
    by_check = [
        {
            "request": check.request,
            "num_tokens": check.num_tokens,
            "degrees_of_freedom": test.degrees_of_freedom,
            "statistic": None if math.isnan(test.statistic) else test.statistic,
            "p_value": test.p_value,
        }
        for check, test in zip(checks, tests, strict=True)
    ]
    settings = {"num_samples": NUM_SAMPLES, "significance": SIGNIFICANCE, "relative_error": relative_error}
    return {**settings, "p_value": float(p_value), "pooled_p_value": float(pooled), "tests": by_check}
