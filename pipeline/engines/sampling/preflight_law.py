"""Checks that an engine samples the model's own law: the softmax at temperature 1, whole and nothing else.

Some engines apply a checkpoint's sampling defaults unasked. A law with one likely answer hides that, so the requests
are those with the most random answers, and the checks say how probably they would notice.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from scipy.stats import chi2, ncx2
from transformers import PreTrainedTokenizerBase

from pipeline.core.statistics.law_check import LawCells, upper_tail
from pipeline.engines.loading.model import next_log_probabilities
from pipeline.engines.sampling.generate import sample_seeds
from pipeline.engines.sampling.text_engine import SampleRequest, TextEngine
from pipeline.errors import ModelError

NUM_SAMPLES = 2000
# A sound engine is refused once in 10,000 runs, whatever the number of tests.
SIGNIFICANCE = 1e-4
# Less probable than that to be noticed, a wrong engine is worth a warning.
LEAST_POWER = 0.9
# Requests of each table whose laws are looked at, evenly spaced, to choose the most random ones.
MOST_CANDIDATES = 48
# Rarer tokens are left out of a law.
LEAST_PROBABILITY = 1e-9
# A bfloat16 logit between 16 and 32 is rounded to the next 1/8. So the same weights run in two ways (with and without
# a cache, other kernels, experts in another format) give probabilities that differ by some tenth, and none is wrong.
RELATIVE_ERROR = {"float32": 0.0, "bfloat16": 0.1}
"""Root mean square of what an engine's probabilities may differ by, as a share of each, by dtype of the model."""

Law = dict[tuple[str, str], float]  # probability by text and finish reason ("stop" or "length")
Requests = Mapping[str, Sequence[int]]  # token ids of requests by prompt id


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


def answer_laws(tokenizer: PreTrainedTokenizerBase, softmaxes: Sequence[torch.Tensor], stop_ids: set[int]) -> list[Law]:
    """Exact laws of answers of one token, of several float64[V] softmaxes; the first says which tokens are too rare.

    What is rare, or ends within a character, is missing to 1.
    """
    tokens = torch.nonzero(softmaxes[0] >= LEAST_PROBABILITY)[:, 0]
    kept = [[] if token in stop_ids else [token] for token in tokens.tolist()]
    texts = tokenizer.batch_decode(kept, skip_special_tokens=False)
    laws: list[Law] = [{} for _ in softmaxes]
    for law, probabilities in zip(laws, torch.stack(list(softmaxes))[:, tokens].tolist(), strict=True):
        for token, text, probability in zip(kept, texts, probabilities, strict=True):
            # Which bytes a replacement character stands for cannot be told.
            if "\N{REPLACEMENT CHARACTER}" not in text:
                outcome = (text, "length" if token else "stop")
                law[outcome] = law.get(outcome, 0.0) + probability
    return laws


@dataclass(frozen=True)
class LawCheck:
    """The law of one-token answers to a request, to be compared with an engine's."""

    request: str
    prompt_ids: Sequence[int]
    law: Law
    wrong: dict[str, Law]  # what the law of an engine would be that is wrong, by what is wrong with it
    cells: LawCells  # of the test of ``NUM_SAMPLES`` samples

    @property
    def key(self) -> str:
        """Names its samples."""
        return f"law-1-{self.request}"


def law_checks(
    model: torch.nn.Module, tokenizer: PreTrainedTokenizerBase, requests: Requests, stop_ids: set[int]
) -> list[LawCheck]:
    """The checks of an engine, one for each request, from the model itself."""
    checks = []
    for name, ids in requests.items():
        softmax = next_log_probabilities(model, [ids])[0].exp()
        sampled = [sampler(softmax) for sampler in WRONG_SAMPLERS.values()]
        law, *others = answer_laws(tokenizer, [softmax, *sampled], stop_ids)
        wrong = dict(zip(WRONG_SAMPLERS, others, strict=True))
        checks.append(LawCheck(name, ids, law, wrong, LawCells(law, NUM_SAMPLES)))
    return checks


def _pooled(checks: Sequence[LawCheck], relative_error: float) -> tuple[int, float]:
    """Degrees of freedom and noncentrality of the sum of all statistics, which shows small faults of all laws."""
    tested = [check.cells for check in checks if check.cells.degrees_of_freedom]
    return sum(cells.degrees_of_freedom for cells in tested), len(tested) * NUM_SAMPLES * relative_error**2


def power(checks: Sequence[LawCheck], relative_error: float = 0.0) -> dict[str, float]:
    """How probably ``check_laws`` refuses an engine, by what is wrong with it: by the sum of all statistics alone,
    which under another law is about noncentral chi-square."""
    freedom, noncentrality = _pooled(checks, relative_error)
    if not freedom:
        return dict.fromkeys(checks[0].wrong, 0.0)
    level = SIGNIFICANCE / (len(checks) + 1)
    limit = ncx2.isf(level, freedom, noncentrality) if noncentrality else chi2.isf(level, freedom)
    powers = {}
    for name in checks[0].wrong:
        shift = 0.0
        for check in checks:
            expected = {outcome: mass * NUM_SAMPLES for outcome, mass in check.wrong[name].items()}
            shift += check.cells.statistic({**expected, None: NUM_SAMPLES - sum(expected.values())})
        powers[name] = upper_tail(limit, freedom, noncentrality + shift)
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


def check_laws(
    engine: TextEngine, checks: Sequence[LawCheck], *, seed: int, model: str, relative_error: float = 0.0
) -> dict[str, Any]:
    """Chi-square tests of an engine's answers against their exact laws, one by one and together.

    Returns the smallest ``p_value``, corrected for the number of tests (Bonferroni), and those by request, which are
    not. Raises ModelError where it is below ``SIGNIFICANCE``, or samples are missing.
    """
    counts: dict[str, Counter] = {check.key: Counter() for check in checks}
    requests = []
    for check in checks:
        seeds = dict(enumerate(sample_seeds(seed, ("preflight", model, check.key), NUM_SAMPLES)))
        requests.append(SampleRequest(check.key, list(check.prompt_ids), seeds, 1, skip_special_tokens=False))
    for samples in engine.sample(requests):
        for sample in samples:
            counts[sample.key][sample.generation.text, sample.generation.finish_reason] += 1
    if other := [count.total() for count in counts.values() if count.total() != NUM_SAMPLES]:
        raise ModelError(f"{model}: the engine gave {other[0]} of {NUM_SAMPLES} samples")
    single = {check.request: check.cells.p_value(counts[check.key], relative_error) for check in checks}
    statistic = sum(check.cells.statistic(counts[check.key]) for check in checks)
    together = upper_tail(statistic, *_pooled(checks, relative_error))
    p_value = min((len(checks) + 1) * min(together, *single.values()), 1.0)
    if p_value < SIGNIFICANCE:
        check = min(checks, key=lambda check: single[check.request])
        count, expected = counts[check.key], {outcome: p * NUM_SAMPLES for outcome, p in check.law.items()}
        worst = max(expected, key=lambda outcome: (count[outcome] - expected[outcome]) ** 2 / (expected[outcome] + 1))
        raise ModelError(
            f"{model}: the samples do not follow the model's softmax at temperature 1 (p = {p_value:.1g}); of "
            f"{NUM_SAMPLES} answers of one token to {check.request}, {worst[0]!r} ({worst[1]}) came up {count[worst]} "
            f"times, expected {expected[worst]:.1f}; does the engine apply sampling defaults of the checkpoint's "
            "generation_config.json, or a server some of its own?"
        )
    settings = {"num_samples": NUM_SAMPLES, "significance": SIGNIFICANCE, "relative_error": relative_error}
    return {**settings, "p_value": p_value, "p_value_together": together, "p_values": single}
