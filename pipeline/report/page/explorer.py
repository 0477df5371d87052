"""The data behind the page's explorer: every model's answers to every structured prompt, made small."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from pipeline.artifacts.storage import read_table
from pipeline.config.evaluation import BASELINES
from pipeline.core.laws.families import get_family
from pipeline.core.laws.family import Law
from pipeline.core.laws.quantiles import quantile
from pipeline.core.prompts.structured import Prompt
from pipeline.report.evaluations import Evaluations

NUM_QUANTILES = 200
LEVELS = (np.arange(1, NUM_QUANTILES + 1) - 0.5) / NUM_QUANTILES
"""Levels (i - 0.5) / 200 of the samples' quantiles."""
STEPS = 160
"""Steps of a continuous law's grid."""
STEPS_PER_BIN = 8
MAX_INTEGER_STEPS = 120
MARGIN = 0.5
"""How far the window reaches beyond the target's central 90%, in units of its width Q95 - Q05."""
TAIL = 0.001
"""The window never leaves the target's quantiles at this level and its complement."""
MAX_RESULTS = 8000
"""Most results (model, condition and prompt) on a page; each takes about 3 kB."""
AXIS = "structured"
TABLES = {
    "exact": ("exact_cdf", ("prompt_id", "x", "cdf_low", "cdf_high")),
    "pit": ("pit", ("prompt_id", "bin", "count", "expected")),
}
"""Tables of an evaluation behind single views, which it may lack: name and columns."""
NUMBERS = {
    "w1": "wasserstein_1_normalised",
    "w1Low": "wasserstein_1_normalised_ci_low",
    "w1High": "wasserstein_1_normalised_ci_high",
    "floor": "floor",
    "exactLow": "exact_wasserstein_1_normalised_low",
    "exactHigh": "exact_wasserstein_1_normalised_high",
    "kl": "logit_kl_nats",
}
"""Columns of ``per_prompt`` that are shown as numbers; an evaluation of samples alone lacks some."""


@dataclass(frozen=True)
class Window:
    """A uniform grid over the part of a law that is drawn; of an integer law, step j holds the integers in
    (start + j step, start + (j + 1) step].
    """

    start: float
    step: float
    steps: int
    steps_per_bin: int
    integer: bool

    @property
    def grid(self) -> np.ndarray:
        """Ends of the steps, float64[steps + 1]."""
        return self.start + self.step * np.arange(self.steps + 1)

    @property
    def edges(self) -> np.ndarray:
        """Ends of the histogram's bins; half-way between integers for an integer law."""
        return self.grid[:: self.steps_per_bin] + (0.5 if self.integer else 0.0)


def law_window(law: Law) -> Window:
    """The window of a law: its central 90% and half as much on either side, within the support and the 99.8%."""
    low, first, last, high = quantile(law, np.array([TAIL, 0.05, 0.95, 1 - TAIL]))
    width = last - first
    low, high = max(low, first - MARGIN * width), min(high, last + MARGIN * width)
    if law.integer:
        lower, upper = law.support
        low, high = max(math.floor(low) - 1, lower), min(math.ceil(high) + 1, upper)
        step = math.ceil((high - low + 1) / MAX_INTEGER_STEPS)
        return Window(low - 1.0, float(step), math.ceil((high - low + 1) / step), 1, True)
    return Window(float(low), float(high - low) / STEPS, STEPS, STEPS_PER_BIN, False)


def decimals_of(window: Window) -> int:
    """Decimals at which a value of the window keeps four significant digits of the window's width."""
    return int(np.clip(4 - math.floor(math.log10(window.step * window.steps)), 0, 12))


def law_view(law: Law, window: Window) -> dict[str, Any]:
    """Distribution function on the window's grid; its differences are finite where the law's density is not."""
    cdf = law.distribution.cdf(window.grid, **law.scipy_kwargs)
    return {
        "start": window.start,
        "step": window.step,
        "perBin": window.steps_per_bin,
        "integer": window.integer,
        "cdf": np.round(cdf, 5).tolist(),
    }


def sample_view(samples: np.ndarray, window: Window) -> dict[str, Any]:
    """Counts of valid samples per bin and outside the window, and order statistics at LEVELS.

    ``quantiles`` are the smallest samples whose empirical distribution function reaches the level; empty without
    samples.
    """
    ordered, edges = np.sort(samples), window.edges
    below, inside = np.searchsorted(ordered, [edges[0], edges[-1]], side="left")
    # numpy.histogram closes the last bin; a sample at its end is inside.
    counts, _ = np.histogram(ordered, edges)
    ranks = np.ceil(LEVELS * len(ordered)).astype(int) - 1
    return {
        "counts": counts.tolist(),
        "below": int(below),
        "above": int(len(ordered) - inside - (ordered == edges[-1]).sum()),
        "quantiles": np.round(ordered[ranks], decimals_of(window)).tolist() if len(ordered) else [],
    }


def _defined(values: np.ndarray, decimals: int) -> list[float | None]:
    """Rounded values; None where undefined, which JSON has no number for."""
    rounded = np.round(values.astype(np.float64), decimals).tolist()
    return [value if math.isfinite(value) else None for value in rounded]


Columns = Mapping[str, np.ndarray]
"""Columns of one prompt's rows of a table."""


def exact_view(columns: Columns, window: Window) -> dict[str, Any]:
    """The certified bounds of an exact distribution function at ascending ``x``, rounded outwards."""
    return {
        "x": np.round(columns["x"], decimals_of(window)).tolist(),
        "low": _defined(np.floor(columns["cdf_low"] * 1e4) / 1e4, 4),
        "high": _defined(np.ceil(columns["cdf_high"] * 1e4) / 1e4, 4),
    }


def pit_view(columns: Columns) -> dict[str, Any]:
    """Counts of a PIT histogram and the central 95% of a bin's count when the law is met."""
    counts = columns["count"][np.argsort(columns["bin"])]
    low, high = _binomial_band(int(counts.sum()), len(counts))
    return {"counts": counts.tolist(), "low": low, "high": high}


@cache
def _binomial_band(n: int, bins: int) -> tuple[int, int]:
    low, high = stats.binom.ppf([0.025, 0.975], n, 1 / bins) if n else (0, 0)
    return int(low), int(high)


def shown_prompts(prompts: Sequence[Prompt], evaluations: int, limit: int = MAX_RESULTS) -> list[Prompt]:
    """The prompts that fit on a page: as many per split and family as the limit allows, evenly spaced, at least one.

    ``evaluations`` is the number of models times conditions, ``limit`` the most results on a page.
    """
    groups: dict[tuple[str, str], list[Prompt]] = {}
    for prompt in prompts:
        groups.setdefault((prompt.split, prompt.family), []).append(prompt)
    most = max(map(len, groups.values()), default=0)
    while most > 1 and evaluations * sum(min(len(members), most) for members in groups.values()) > limit:
        most -= 1
    kept = {
        members[place].prompt_id
        for members in groups.values()
        for place in np.linspace(0, len(members) - 1, min(len(members), most)).astype(int)
    }
    return [prompt for prompt in prompts if prompt.prompt_id in kept]


def explorer_payload(
    evaluations: Evaluations, prompts: Sequence[Prompt], models: Mapping[str, str], conditions: Sequence[str]
) -> dict[str, Any]:
    """Everything that the explorer draws, as JSON values.

    Returns:
        ``models``, ``conditions`` (base, methods, and the baselines that were run), ``prompts`` (law and text by
        prompt id), ``results[model][condition]`` (``source``, ``absent`` views with the reason, and ``prompts`` by
        prompt id), and ``omitted``, how many prompts were left out for size.
    """
    existing = {(model, condition) for axis, model, condition in evaluations.existing if axis == AXIS}
    conditions = [*conditions, *(name for name in BASELINES if any(name == condition for _, condition in existing))]
    chosen = shown_prompts(prompts, len(models) * len(conditions))
    windows = {prompt.prompt_id: law_window(prompt.law) for prompt in chosen}
    results: dict[str, dict[str, Any]] = {}
    for model in models:
        for condition in conditions:
            if (model, condition) in existing:
                results.setdefault(model, {})[condition] = _evaluation(evaluations, model, condition, windows)
    return {
        "models": dict(models),
        "conditions": conditions,
        "prompts": {prompt.prompt_id: _prompt(prompt, windows[prompt.prompt_id]) for prompt in chosen},
        "results": results,
        "omitted": len(prompts) - len(chosen),
    }


def _prompt(prompt: Prompt, window: Window) -> dict[str, Any]:
    return {
        "split": prompt.split,
        "family": prompt.family,
        "title": get_family(prompt.family).display_name,
        "parameters": ", ".join(f"{name} = {value:.6g}" for name, value in prompt.parameters.items()),
        "text": prompt.text,
        "law": law_view(prompt.law, window),
    }


def _evaluation(evaluations: Evaluations, model: str, condition: str, windows: Mapping[str, Window]) -> dict[str, Any]:
    """One evaluation: its numbers and views by prompt."""
    names, absent = (AXIS, model, condition), {}
    path = evaluations.path(*names, "per_prompt.parquet")
    records = [] if path is None else read_table(path, ()).to_dict("records")
    found = {row["prompt_id"]: _numbers(row) for row in records if row["prompt_id"] in windows}
    if (path := evaluations.path(*names, "samples.parquet")) is not None:
        samples = read_table(path, ("prompt_id", "values"))
        for prompt_id, values in zip(samples["prompt_id"], samples["values"], strict=True):
            if prompt_id in windows:
                view = sample_view(np.asarray(values, dtype=np.float64), windows[prompt_id])
                found.setdefault(prompt_id, {})["samples"] = view
    else:
        absent["samples"] = "the evaluation has no samples.parquet"
    for view, (name, columns) in TABLES.items():
        path = evaluations.path(*names, f"{name}.parquet")
        if path is None:
            alone = view == "exact" and condition in BASELINES
            absent[view] = "evaluated on samples alone" if alone else f"the evaluation has no {name}.parquet"
            continue
        for prompt_id, rows in _by_prompt(read_table(path, columns), windows):
            shown = exact_view(rows, windows[prompt_id]) if view == "exact" else pit_view(rows)
            found.setdefault(prompt_id, {})[view] = shown
    return {"source": evaluations.sources[names], "absent": absent, "prompts": found}


def _by_prompt(table: pd.DataFrame, windows: Mapping[str, Window]) -> Iterator[tuple[str, Columns]]:
    """Columns of each prompt's rows; a data frame per prompt would take ten times as long."""
    columns = {name: table[name].to_numpy() for name in table.columns}
    for prompt_id, rows in table.groupby("prompt_id", sort=False).indices.items():
        if prompt_id in windows:
            yield prompt_id, {name: values[rows] for name, values in columns.items()}


def _numbers(row: Mapping[str, Any]) -> dict[str, Any]:
    """Sample sizes, reasons of invalid answers, and NUMBERS of one row of ``per_prompt``; undefined is None."""
    reasons = {name: int(count) for name, count in row.items() if name.startswith("invalid_") and count}
    values = {key: row.get(column) for key, column in NUMBERS.items()}
    return {
        "n": int(row["num_samples"]),
        "valid": int(row["num_valid"]),
        "invalid": {name.removeprefix("invalid_"): count for name, count in reasons.items()},
        **{
            key: None if value is None or not math.isfinite(value) else float(f"{value:.5g}")
            for key, value in values.items()
        },
    }
