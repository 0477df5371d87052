"""Checks that an engine samples the model's own law: the softmax at temperature 1, whole and nothing else.

Checkpoints come with sampling defaults of their own (``generation_config.json``: top_k, top_p, temperature),
which some engines apply unasked. They leave single samples plausible and every statistic wrong.

A law with one likely answer hides all of that, so the requests are those with the most random answers, and the checks
say how probably they would notice an engine that is wrong in a given way.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.law_check import LawCells, pooled_p_values
from pipeline.engines.loading.model import ROWS_PER_PASS, next_log_probabilities
from pipeline.engines.sampling.generate import Generation, sample_seeds
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
NUM_LONG_SAMPLES, LONGEST = 8, 48
# A bfloat16 logit between 16 and 32 is rounded to the next 1/8. So the same weights run in two ways (with and without
# a cache, other kernels, experts in another format) give probabilities that differ by some tenth, and none is wrong.
RELATIVE_ERROR = {"float32": 0.0, "bfloat16": 0.1}
"""Root mean square of what an engine's probabilities may differ by, as a share of each, by dtype of the model."""

Outcome = tuple[str, str]
"""Text and finish reason ("stop" or "length")."""
Law = dict[Outcome, float]

# Text of bytes that are no character yet: which bytes they were cannot be told.
_UNDECODABLE = "\N{REPLACEMENT CHARACTER}"
# First tokens behind which second tokens are enumerated; a cell needs ten times as much. Real vocabularies have
# hundreds of them, and each costs a forward pass of the request.
_LEAST_FIRST, _MOST_FIRST = 0.1 * 5 / NUM_SAMPLES, 64
_LEAST_OUTCOME = {1: 1e-9, 2: 1e-6}


def _normalised(weights: torch.Tensor) -> torch.Tensor:
    return weights / weights.sum(dim=-1, keepdim=True)


def sharpened(temperature: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """What sampling at a temperature makes of a softmax, float64[R, V]."""
    return lambda law: _normalised(law ** (1 / temperature))


def nucleus(top_p: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """What sampling from the smallest most probable set with this mass makes of a softmax, float64[R, V]."""

    def cut(law: torch.Tensor) -> torch.Tensor:
        ordered, tokens = law.sort(dim=-1, descending=True)
        kept = ordered.masked_fill(ordered.cumsum(dim=-1) - ordered >= top_p, 0.0)
        return _normalised(torch.zeros_like(law).scatter_(-1, tokens, kept))

    return cut


def most_probable(top_k: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """What sampling from the ``top_k`` most probable tokens makes of a softmax, float64[R, V]."""

    def cut(law: torch.Tensor) -> torch.Tensor:
        least = law.topk(min(top_k, law.shape[-1]), dim=-1).values[..., -1:]
        return _normalised(law.masked_fill(law < least, 0.0))

    return cut


WRONG_SAMPLERS = {
    "top_p 0.95": nucleus(0.95),
    "top_k 50": most_probable(50),
    "temperature 0.8": sharpened(0.8),
    "temperature 1.25": sharpened(1.25),
}
"""Wrong engines for which the checks' power is computed: defaults of checkpoints and libraries."""
DOUBLED_BOS = "doubled BOS"


@dataclass(frozen=True)
class ChatRequest:
    """A request of the experiment: its prompt id, its tokens up to where the answer starts, and the same as a chat."""

    key: str
    prompt_ids: list[int]
    messages: list[dict[str, str]]


@torch.inference_mode()
def most_random(model: torch.nn.Module, requests: Sequence[ChatRequest], count: int) -> list[ChatRequest]:
    """The requests whose next token has the greatest entropy under the model, ``count`` of them, greatest first.

    Of more than ``MOST_CANDIDATES`` requests, so many are looked at, evenly spaced.
    """
    step = max(len(requests) / MOST_CANDIDATES, 1)
    candidates = [requests[int(index * step)] for index in range(min(len(requests), MOST_CANDIDATES))]
    entropies: dict[str, float] = {}

    def length(request: ChatRequest) -> int:
        return len(request.prompt_ids)

    # Rows of one pass have one length.
    for _, alike in groupby(sorted(candidates, key=length), key=length):
        for part in _passes(list(alike)):
            log_law = next_log_probabilities(model, [request.prompt_ids for request in part])
            values = torch.special.entr(log_law.exp()).sum(dim=-1)
            entropies |= {request.key: value for request, value in zip(part, values.tolist(), strict=True)}
    return sorted(candidates, key=lambda request: -entropies[request.key])[:count]


def _passes(items: list[Any]) -> Iterator[list[Any]]:
    """``ROWS_PER_PASS`` items at a time, whose log-probabilities fit into memory together."""
    return (items[start : start + ROWS_PER_PASS] for start in range(0, len(items), ROWS_PER_PASS))


def _add(
    laws: Sequence[Law],
    tokenizer: PreTrainedTokenizerBase,
    prefix: Sequence[int],
    probabilities: Sequence[torch.Tensor],
    stop_ids: set[int],
    least: float,
) -> None:
    """Add to each law the outcomes of one more token behind ``prefix``, float64[V] joint probabilities of each.

    Outcomes are those that the first law has ``least`` of.
    """
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


@torch.inference_mode()
def answer_laws(
    model: torch.nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    prompt_ids: Sequence[int],
    stop_ids: set[int],
    num_tokens: int,
    samplers: Sequence[Callable[[torch.Tensor], torch.Tensor]] = (),
    requests: Sequence[Sequence[int]] = (),
) -> list[Law]:
    """Exact laws of a generation of at most ``num_tokens`` (1 or 2) tokens: at temperature 1, and done wrongly.

    Args:
        model: The reference model, whose softmax is in float64.
        tokenizer: Its tokenizer; special tokens other than the stop token are part of a text.
        prompt_ids: The request.
        stop_ids: Tokens that end a generation.
        num_tokens: Of a generation.
        samplers: What wrong engines make of each step's softmax, float64[R, V].
        requests: What wrong engines send instead of the request.

    Returns:
        Probability by text and finish reason, for the model's own law, for each sampler and for each other request.
        Outcomes that are rare under the model's own law, or end within a character, are what is missing to 1.
    """
    least = _LEAST_OUTCOME[num_tokens]

    def steps(ends: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        """float64[R, V] of every law: the token behind the request and each of R ends."""
        own, *others = (
            next_log_probabilities(model, [[*ids, *end] for end in ends]).exp() for ids in (prompt_ids, *requests)
        )
        return [own, *(sampler(own) for sampler in samplers), *others]

    firsts = [law[0] for law in steps([()])]
    laws: list[Law] = [{} for _ in firsts]
    if num_tokens == 1:
        _add(laws, tokenizer, [], firsts, stop_ids, least)
        return laws
    stops = torch.tensor(sorted(stop_ids))
    for law, first in zip(laws, firsts, strict=True):
        law["", "stop"] = float(first[stops].sum())
        first[stops] = 0
    common = firsts[0].topk(min(_MOST_FIRST, len(firsts[0])))
    tokens = common.indices[common.values >= _LEAST_FIRST].sort().values.tolist()
    for part in _passes(tokens):
        seconds = steps([(token,) for token in part])
        for row, token in enumerate(part):
            joints = [first[token] * second[row] for first, second in zip(firsts, seconds, strict=True)]
            _add(laws, tokenizer, [token], joints, stop_ids, least)
    return laws


@dataclass(frozen=True)
class LawCheck:
    """The law of the answers of at most ``num_tokens`` to a request, to be compared with an engine's."""

    request: ChatRequest
    num_tokens: int
    cells: LawCells
    """Of the test of ``NUM_SAMPLES`` samples."""
    wrong: dict[str, np.ndarray]
    """float64[C + 1], what the cells would have of an engine that is wrong, by what is wrong with it."""

    @classmethod
    def of(cls, request: ChatRequest, num_tokens: int, own: Law, wrong: Mapping[str, Law]) -> "LawCheck":
        """The check of the model's ``own`` law, and what it would see of ``wrong`` ones."""
        cells = LawCells(own, NUM_SAMPLES)
        return cls(request, num_tokens, cells, {name: cells.masses(law) for name, law in wrong.items()})

    @property
    def key(self) -> str:
        """Names its samples."""
        return f"law-{self.num_tokens}-{self.request.key}"


def law_checks(
    model: torch.nn.Module, tokenizer: PreTrainedTokenizerBase, requests: Sequence[ChatRequest], stop_ids: set[int]
) -> list[LawCheck]:
    """The checks of an engine, ``LAW_TOKENS`` of each request, from the model itself."""
    checks = []
    for num_tokens in LAW_TOKENS:
        for request in requests:
            ids, bos = request.prompt_ids, tokenizer.bos_token_id
            doubled = [[bos, *ids]] if bos is not None and ids[0] == bos else []
            own, *wrong = answer_laws(
                model, tokenizer, ids, stop_ids, num_tokens, list(WRONG_SAMPLERS.values()), doubled
            )
            names = [*WRONG_SAMPLERS, *([DOUBLED_BOS] if doubled else [])]
            checks.append(LawCheck.of(request, num_tokens, own, dict(zip(names, wrong, strict=True))))
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
    """How probably ``check_laws`` refuses an engine that is wrong, by what is wrong with it.

    By simulation of the checks' counts, ``POWER_DRAWS`` times. A check that has no law of the wrong engine
    (a request without BOS token) counts as sound.
    """
    found = {}
    for name in dict.fromkeys(name for check in checks for name in check.wrong):
        observed = [
            check.cells.draw(
                check.wrong.get(name, check.cells.probabilities),
                POWER_DRAWS,
                random_stream(seed, "power", check.key, name),
            )
            for check in checks
        ]
        single, pooled = _adjusted_p_values(checks, observed, relative_error)
        found[name] = float((np.minimum(single.min(axis=0), pooled) < SIGNIFICANCE).mean())
    return found


def power_warning(found: Mapping[str, float]) -> str | None:
    """One sentence where the checks would hardly notice a wrong engine; None where all is well."""
    missed = [f"{name} (noticed in {value:.0%} of runs)" for name, value in found.items() if value < LEAST_POWER]
    if not missed:
        return None
    return (
        f"samples of the model's answers, the most random ones, would hardly show an engine's {', '.join(missed)}; "
        "that its samples pass says little about that"
    )


def _samples(
    engine: TextEngine,
    requests: Mapping[str, ChatRequest],
    num_samples: int,
    max_new_tokens: int,
    seed: int,
    model: str,
) -> dict[str, list[Generation]]:
    """Answers to requests by the keys of their random streams."""
    asked = [
        SampleRequest(
            key=key,
            prompt_ids=request.prompt_ids,
            messages=request.messages,
            seeds=dict(enumerate(sample_seeds(seed, ("preflight", model, key), num_samples))),
            max_new_tokens=max_new_tokens,
            temperature=1.0,
            top_p=1.0,
            skip_special_tokens=False,
        )
        for key, request in requests.items()
    ]
    drawn: dict[str, list[Generation]] = {key: [] for key in requests}
    for finished in engine.sample(asked):
        for sample in finished:
            drawn[sample.key].append(sample.generation)
    return drawn


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
    drawn: dict[str, list[Generation]] = {}
    for num_tokens, group in groupby(checks, key=lambda check: check.num_tokens):
        requests = {check.key: check.request for check in group}
        drawn |= _samples(engine, requests, NUM_SAMPLES, num_tokens, seed, model)
    counts = [Counter((answer.text, answer.finish_reason) for answer in drawn[check.key]) for check in checks]
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
            f"{NUM_SAMPLES} answers of {checks[index].num_tokens} token(s) to {checks[index].request.key}, {named} "
            f"came up {seen} times, expected {expected:.1f}; does the engine apply sampling defaults of the "
            "checkpoint's generation_config.json, or a server those that its engine.openai.dialect leaves unsaid?"
        )
    by_check = [
        {
            "request": check.request.key,
            "num_tokens": check.num_tokens,
            "degrees_of_freedom": test.degrees_of_freedom,
            "statistic": None if math.isnan(test.statistic) else test.statistic,
            "p_value": test.p_value,
        }
        for check, test in zip(checks, tests, strict=True)
    ]
    return {
        "num_samples": NUM_SAMPLES,
        "significance": SIGNIFICANCE,
        "relative_error": relative_error,
        "p_value": float(p_value),
        "pooled_p_value": float(pooled),
        "tests": by_check,
    }


def check_endings(
    engine: TextEngine,
    tokenizer: PreTrainedTokenizerBase,
    requests: Sequence[ChatRequest],
    stop_ids: set[int],
    *,
    seed: int,
    model: str,
) -> dict[str, Any]:
    """Longer answers end at the first stop token or at the limit, and say which. Raises ModelError.

    Where the ``longest`` answer is short of the limit, an engine with a lower limit of its own would not be noticed.
    """
    asked = {f"endings-{request.key}": request for request in requests}
    drawn = _samples(engine, asked, NUM_LONG_SAMPLES, LONGEST, seed, model)
    answers = [answer for key in asked for answer in drawn[key]]
    stops = [tokenizer.decode([token]) for token in sorted(stop_ids)]
    for generation in answers:
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
        "num_samples": len(answers),
        "max_new_tokens": LONGEST,
        "num_stopped": sum(answer.finish_reason == "stop" for answer in answers),
        "longest": max(answer.num_tokens for answer in answers),
    }
