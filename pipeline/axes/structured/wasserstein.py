"""W1 of one prompt's answers from its law (arXiv:2605.11845, Section 4.2, Eq. 5)."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.axes.structured.pit import printed_decimals
from pipeline.core.laws.family import Law
from pipeline.core.laws.finite_law import FiniteLaw
from pipeline.core.laws.quantiles import interquantile_width, quantile
from pipeline.core.prompts.number_answers import Invalid, parse_sample
from pipeline.core.prompts.structured import Prompt


def wasserstein_1(ordered: np.ndarray, law: Law | FiniteLaw) -> np.ndarray:
    """Eq. 5 over Q95 - Q05 of R samples, ascending rows of float64[R, n]: float64[R], NaN without samples or width. The
    mean distance of order statistics from the law's mid-quantiles, the paper's estimate of the exact distance."""
    size, width = ordered.shape[1], interquantile_width(law)
    if not (size and width > 0):
        return np.full(len(ordered), math.nan)
    mid_quantiles = quantile(law, (np.arange(1, size + 1) - 0.5) / size)
    return np.abs(ordered - mid_quantiles).mean(axis=1) / width


def law_draws(law: Law | FiniteLaw, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Independent draws from a law, float64 of a shape."""
    if law.integer or isinstance(law, FiniteLaw):
        # SciPy's own draws reject whole numbers that are carried as floats.
        return quantile(law, rng.random(shape))
    return law.freeze().rvs(size=shape, random_state=rng)


def perfect_sampler_replicates(
    law: Law | FiniteLaw, size: int, replicates: int, rng: np.random.Generator
) -> np.ndarray:
    """``wasserstein_1`` of ``size`` independent draws from the law itself, float64[replicates]."""
    draws = law_draws(law, (replicates, size), rng) if size else np.empty((replicates, 0))
    return wasserstein_1(np.sort(draws, axis=1), law)


@dataclass(frozen=True)
class PromptResult:
    """The parsed answers to one prompt."""

    samples: np.ndarray  # float64[num_valid], the valid ones
    decimals: np.ndarray  # float64[num_valid], how many decimals each is printed with
    num_samples: int  # answers, valid or not
    invalid: dict[str, int]  # number of answers by the reason why they are invalid
    wasserstein_1_normalised: float

    @property
    def valid_rate(self) -> float:
        return len(self.samples) / self.num_samples if self.num_samples else math.nan


def evaluate_prompt(texts: Sequence[str | Invalid], law: Law | FiniteLaw) -> PromptResult:
    """Parse the answers to one prompt, or the reasons why there is none, and compare them with its law."""
    parsed = [parse_sample(text, law.support, law.integer) for text in texts]
    valid = [(value, text) for value, text in zip(parsed, texts, strict=True) if not isinstance(value, Invalid)]
    samples = np.array([value for value, _ in valid], dtype=np.float64)
    decimals = np.array([printed_decimals(text) for _, text in valid], dtype=np.float64)
    invalid = Counter(value.value for value in parsed if isinstance(value, Invalid))
    return PromptResult(
        samples, decimals, len(texts), dict(invalid), float(wasserstein_1(np.sort(samples)[None], law)[0])
    )


def prompt_row(prompt: Prompt, result: PromptResult) -> dict:
    """The result of one prompt's answers as a row of the per-prompt table."""
    return {
        "prompt_id": prompt.prompt_id,
        "split": prompt.split,
        "family": prompt.family,
        "num_samples": result.num_samples,
        "num_valid": len(result.samples),
        "valid_rate": result.valid_rate,
        "wasserstein_1_normalised": result.wasserstein_1_normalised,
        **{f"invalid_{reason.value}": result.invalid.get(reason.value, 0) for reason in Invalid},
    }
