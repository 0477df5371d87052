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
from pipeline.core.laws.quantiles import quantile
from pipeline.core.prompts.number_answers import Invalid, parse_sample
from pipeline.core.prompts.structured import Prompt
from pipeline.core.statistics.intervals import percentile_interval

OUTLIER_WIDTHS = 10.0


def mid_quantiles(law: Law | FiniteLaw, size: int) -> np.ndarray:
    """F^-1((i - 0.5) / size) for i = 1..size, float64[size]."""
    return quantile(law, (np.arange(1, size + 1) - 0.5) / size)


def wasserstein_1(samples: np.ndarray, law: Law | FiniteLaw) -> float:
    """Eq. 5: mean distance of order statistics from the law's mid-quantiles; NaN without samples.

    This is the paper's estimate. It differs from the exact distance between the
    empirical and the target law, which integrates |F_N - F|.
    """
    if len(samples) == 0:
        return math.nan
    return float(np.abs(np.sort(samples) - mid_quantiles(law, len(samples))).mean())


def central_quantiles(law: Law | FiniteLaw) -> tuple[float, float]:
    """Q05 and Q95 of the target."""
    low, high = quantile(law, np.array([0.05, 0.95]))
    return float(low), float(high)


def interquantile_width(law: Law | FiniteLaw) -> float:
    """Q95 - Q05 of the target, the paper's scale for W1."""
    low, high = central_quantiles(law)
    return high - low


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
        wasserstein_1: Eq. 5 over the valid samples, in the law's own unit; NaN without any.
        wasserstein_1_normalised: Divided by Q95 - Q05 of the target.
        wasserstein_1_window_normalised: The same with samples and law clipped to the window
            between the target's 0.001 and 0.999 quantiles, which is what the exact law's
            bounds are for (``pipeline.core.exact.number_law``).
        num_outliers: Valid samples more than OUTLIER_WIDTHS times Q95 - Q05 below Q05 or
            above Q95. They are counted, never dropped: one of them can make up all of W1.
        reference: float64[num_valid], the target's mid-quantiles at this number of samples.
        width: Q95 - Q05 of the target.
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
    reference: np.ndarray
    width: float

    @property
    def valid_rate(self) -> float:
        """Share of generations that are valid."""
        return len(self.samples) / self.num_samples if self.num_samples else math.nan


def evaluate_prompt(texts: Sequence[str | Invalid], law: Law | FiniteLaw) -> PromptResult:
    """Parse the answers to one prompt, or the reasons why there is none, and compare them with its law."""
    support = law.support
    parsed = [parse_sample(text, support, law.integer) for text in texts]
    samples = np.array([value for value in parsed if not isinstance(value, Invalid)], dtype=np.float64)
    valid = np.array([not isinstance(value, Invalid) for value in parsed], dtype=bool)
    invalid = Counter(value.value for value in parsed if isinstance(value, Invalid))
    low, high = central_quantiles(law)
    width = high - low
    reach = OUTLIER_WIDTHS * width
    reference = mid_quantiles(law, len(samples))
    window = np.clip(quantile(law, np.array(QUANTILE_RANGE)), *support)
    distance = clipped = math.nan
    if len(samples):
        ordered = np.sort(samples)
        distance = float(np.abs(ordered - reference).mean())
        clipped = float(np.abs(np.clip(ordered, *window) - np.clip(reference, *window)).mean())
    return PromptResult(
        samples,
        valid,
        valid_decimals(texts, valid),
        len(texts),
        dict(invalid),
        distance,
        distance / width if width > 0 else math.nan,
        clipped / width if width > 0 else math.nan,
        int(((samples < low - reach) | (samples > high + reach)).sum()),
        reference,
        width,
    )


def prompt_row(prompt: Prompt, result: PromptResult, bootstrap_replicates: int, rng: np.random.Generator) -> dict:
    """The sample-level result of one prompt as a row of the per-prompt table.

    Args:
        prompt: The prompt and its law.
        result: Its ``evaluate_prompt``.
        bootstrap_replicates: Resamples behind the interval of W1.
        rng: The bootstrap's stream.
    """
    low, high = bootstrap_prompt(result, bootstrap_replicates, rng)
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
        "wasserstein_1_normalised_ci_low": low,
        "wasserstein_1_normalised_ci_high": high,
        "num_outliers": result.num_outliers,
        **{f"invalid_{reason.value}": result.invalid.get(reason.value, 0) for reason in Invalid},
    }


def bootstrap_prompt(result: PromptResult, replicates: int, rng: np.random.Generator) -> tuple[float, float]:
    """95% interval of one prompt's normalised W1 for redrawing its generations.

    Resampling adds the sampling error a second time and shifts W1 upwards near its
    floor, so the percentile interval is moved by the bootstrap's own bias estimate and
    kept at or above 0.

    Returns:
        (low, high); NaN with fewer than two valid samples.
    """
    samples = result.samples
    if len(samples) < 2 or not result.width > 0:
        return math.nan, math.nan
    draws = np.sort(rng.choice(samples, size=(replicates, len(samples))), axis=1)
    values = np.abs(draws - result.reference).mean(axis=1) / result.width
    low, high = percentile_interval(values - (values.mean() - result.wasserstein_1_normalised))
    return max(0.0, low), high


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
