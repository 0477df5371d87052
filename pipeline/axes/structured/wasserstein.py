"""Sample-level metrics of structured sampling (arXiv:2605.11845, Section 4.2, Eq. 5)."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pipeline.axes.structured.pit import valid_decimals
from pipeline.core.laws.discretize import QUANTILE_RANGE
from pipeline.core.laws.family import Law
from pipeline.core.laws.finite_law import FiniteLaw
from pipeline.core.laws.quantiles import interquantile_width, quantile
from pipeline.core.prompts.number_answers import Invalid, parse_sample
from pipeline.core.prompts.structured import Prompt

OUTLIER_WIDTHS = 10.0


def mid_quantiles(law: Law | FiniteLaw, size: int) -> np.ndarray:
    """F^-1((i - 0.5) / size) for i = 1..size, float64[size]."""
    return quantile(law, (np.arange(1, size + 1) - 0.5) / size)


def distances(ordered: np.ndarray, law: Law | FiniteLaw) -> dict[str, np.ndarray]:
    """Eq. 5 of R samples, each a row of float64[R, n] in ascending order: float64[R] by column, NaN without samples.

    The mean distance of order statistics from the law's mid-quantiles, the paper's estimate: it differs from the exact
    distance between the empirical and the target law, which integrates |F_N - F|. In the law's own unit; divided by
    Q95 - Q05 of the target; and the same with samples and law clipped to the window between the target's 0.001 and
    0.999 quantiles, which is what the exact law's bounds are for (``pipeline.core.exact.number_law``).
    """
    names = ("wasserstein_1", "wasserstein_1_normalised", "wasserstein_1_window_normalised")
    if not ordered.shape[1]:
        return {name: np.full(len(ordered), math.nan) for name in names}
    reference = mid_quantiles(law, ordered.shape[1])
    window, width = np.clip(quantile(law, np.array(QUANTILE_RANGE)), *law.support), interquantile_width(law)
    scale = width if width > 0 else math.nan
    whole = np.abs(ordered - reference).mean(axis=1)
    clipped = np.abs(np.clip(ordered, *window) - np.clip(reference, *window)).mean(axis=1)
    return dict(zip(names, (whole, whole / scale, clipped / scale), strict=True))


def perfect_sampler_replicates(
    law: Law | FiniteLaw, size: int, replicates: int, rng: np.random.Generator
) -> np.ndarray:
    """Normalised W1 of ``size`` independent draws from the law itself, float64[replicates].

    What a perfect sampler scores at this sample size: never 0, and the floor that a
    model's figure must be read against.
    """
    width = interquantile_width(law)
    if not width > 0:
        return np.full(replicates, math.nan)
    reference = mid_quantiles(law, size)
    if law.integer or isinstance(law, FiniteLaw):
        # SciPy's own draws reject whole numbers that are carried as floats.
        draws = quantile(law, rng.random((replicates, size)))
    else:
        draws = law.freeze().rvs(size=(replicates, size), random_state=rng)
    draws.sort(axis=1)
    return np.abs(draws - reference).mean(axis=1) / width


@dataclass(frozen=True)
class PromptResult:
    """Sample-level result of one prompt.

    Attributes:
        samples: float64[num_valid], the valid samples.
        valid: bool[num_samples], which answers they are.
        decimals: float64[num_valid], how many decimals each is printed with (``pipeline.axes.structured.pit``).
        num_samples: Generations, valid or not.
        invalid: Number of generations per reason (``pipeline.core.prompts.number_answers.Invalid``).
        wasserstein_1: ``distances`` of the valid samples.
        wasserstein_1_normalised: See there.
        wasserstein_1_window_normalised: See there.
        num_outliers: Valid samples more than OUTLIER_WIDTHS times Q95 - Q05 below Q05 or
            above Q95. They are counted, never dropped: one of them can make up all of W1.
    """

    samples: np.ndarray
    valid: np.ndarray
    decimals: np.ndarray
    num_samples: int
    invalid: dict[str, int]
    wasserstein_1: float
    wasserstein_1_normalised: float
    wasserstein_1_window_normalised: float
    num_outliers: int

    @property
    def valid_rate(self) -> float:
        """Share of generations that are valid."""
        return len(self.samples) / self.num_samples if self.num_samples else math.nan


def evaluate_prompt(texts: Sequence[str | Invalid], law: Law | FiniteLaw) -> PromptResult:
    """Parse the answers to one prompt, or the reasons why there is none, and compare them with its law."""
    parsed = [parse_sample(text, law.support, law.integer) for text in texts]
    samples = np.array([value for value in parsed if not isinstance(value, Invalid)], dtype=np.float64)
    valid = np.array([not isinstance(value, Invalid) for value in parsed], dtype=bool)
    invalid = Counter(value.value for value in parsed if isinstance(value, Invalid))
    low, high = quantile(law, np.array([0.05, 0.95]))
    reach = OUTLIER_WIDTHS * (high - low)
    return PromptResult(
        samples,
        valid,
        valid_decimals(texts, valid),
        len(texts),
        dict(invalid),
        **{name: float(values[0]) for name, values in distances(np.sort(samples)[None], law).items()},
        num_outliers=int(((samples < low - reach) | (samples > high + reach)).sum()),
    )


def within_budget(
    prompt: Prompt, answers: Sequence[Sequence[str | Invalid]], num_tokens: np.ndarray, budget: int
) -> tuple[dict, PromptResult]:
    """What the first of one prompt's generations, as many as take at most a budget of tokens together, come to.

    Args:
        prompt: The prompt and its law.
        answers: The answers of each of G generations, in sample order; one may hold several.
        num_tokens: int64[G], generated tokens of each, the terminator included.
        budget: Tokens.

    Returns:
        Columns of the per-prompt table: ``answers_at_budget`` (valid or not), ``num_valid_at_budget``,
        ``valid_rate_at_budget``, ``wasserstein_1_normalised_at_budget`` (NaN without a valid one), and
        ``num_tokens`` of all generations. And the result of the answers within the budget.
    """
    fitting = int(np.searchsorted(np.cumsum(num_tokens), budget, side="right"))
    affordable = [answer for group in answers[:fitting] for answer in group]
    within = evaluate_prompt(affordable, prompt.law)
    row = {
        "answers_at_budget": len(affordable),
        "num_valid_at_budget": len(within.samples),
        "valid_rate_at_budget": within.valid_rate,
        "wasserstein_1_normalised_at_budget": within.wasserstein_1_normalised,
        "num_tokens": int(np.sum(num_tokens)),
    }
    return row, within


def prompt_row(prompt: Prompt, result: PromptResult) -> dict:
    """The result of one prompt's answers as a row of the per-prompt table."""
    return {
        "prompt_id": prompt.prompt_id,
        "split": prompt.split,
        "family": prompt.family,
        "num_samples": result.num_samples,
        "num_valid": len(result.samples),
        "valid_rate": result.valid_rate,
        "wasserstein_1": result.wasserstein_1,
        "wasserstein_1_normalised": result.wasserstein_1_normalised,
        "wasserstein_1_window_normalised": result.wasserstein_1_window_normalised,
        "num_outliers": result.num_outliers,
        **{f"invalid_{reason.value}": result.invalid.get(reason.value, 0) for reason in Invalid},
    }


def kl_by_depth(scores: pd.DataFrame) -> pd.DataFrame:
    """Mean KL over the sampled paths that reach each depth of a prompt's trie.

    Args:
        scores: prompt_id, target, path_index, prefix_index (depth, 0 before the first token), kl_nats.

    Returns:
        prompt_id, target, prefix_index, kl_nats (mean), n (paths), in the prompts' order.
    """
    grouped = scores.groupby(["prompt_id", "target", "prefix_index"], sort=False)["kl_nats"]
    table = grouped.agg(["mean", "size"]).reset_index().rename(columns={"mean": "kl_nats", "size": "n"})
    # Later paths may be longer than the first: in order of depth within each prompt and target.
    order = table.groupby(["prompt_id", "target"], sort=False).ngroup()
    table = table.assign(order=order).sort_values(["order", "prefix_index"], kind="stable")
    return table.drop(columns="order").reset_index(drop=True)
