"""The data of the page's interactive view: answers, exact law and target of each prompt over the same cells."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pipeline.artifacts.storage import read_table
from pipeline.config.evaluation import BASELINES
from pipeline.core.laws.cells import edges_of, law_cells
from pipeline.core.laws.families import get_family
from pipeline.core.laws.family import Law
from pipeline.core.prompts.structured import Prompt
from pipeline.report.evaluations import Evaluations

PROMPTS_PER_FAMILY = 6
NUMBERS = {
    "n": "num_samples",
    "valid": "num_valid",
    "w1": "wasserstein_1_normalised",
    "w1Low": "wasserstein_1_normalised_ci_low",
    "w1High": "wasserstein_1_normalised_ci_high",
    "floor": "floor",
    "kl": "logit_kl_nats",
}
"""Columns of ``per_prompt`` that are shown; an evaluation of samples alone lacks some."""


def exact_masses(law: Law, ends: np.ndarray, x: np.ndarray, low: np.ndarray, high: np.ndarray) -> list[float] | None:
    """Probability of each cell, from certified bounds of the distribution function at ascending ``x``."""
    middle = (low + high) / 2
    known = np.isfinite(middle)
    if not known.any():
        return None
    cdf = np.interp(ends, x[known], middle[known], left=0.0 if law.integer else None)
    return np.round(np.diff(cdf), 5).tolist()


def shown_prompts(prompts: Sequence[Prompt]) -> list[Prompt]:
    """At most PROMPTS_PER_FAMILY prompts of each split and family, evenly spaced."""
    groups: dict[tuple[str, str], list[Prompt]] = {}
    for prompt in prompts:
        groups.setdefault((prompt.split, prompt.family), []).append(prompt)
    return [
        members[place]
        for members in groups.values()
        for place in np.linspace(0, len(members) - 1, min(len(members), PROMPTS_PER_FAMILY)).astype(int)
    ]


def explorer_payload(
    evaluations: Evaluations, prompts: Sequence[Prompt], models: Mapping[str, str], conditions: Sequence[str]
) -> dict[str, Any]:
    """What the view draws, as JSON: ``prompts`` and ``results[model][condition]`` by prompt id, and more."""
    chosen = {prompt.prompt_id: prompt for prompt in shown_prompts(prompts)}
    ends = {prompt_id: law_cells(prompt.law) for prompt_id, prompt in chosen.items()}
    results: dict[str, dict[str, Any]] = {}
    for model in models:
        for condition in (*conditions, *BASELINES):
            found = _evaluation(evaluations, model, condition, chosen, ends)
            if found:
                results.setdefault(model, {})[condition] = found
    return {
        "models": dict(models),
        "prompts": {prompt_id: _prompt(prompt, ends[prompt_id]) for prompt_id, prompt in chosen.items()},
        "results": results,
        "omitted": len(prompts) - len(chosen),
    }


def _prompt(prompt: Prompt, ends: np.ndarray) -> dict[str, Any]:
    parameters = ", ".join(f"{name} = {value:.6g}" for name, value in prompt.parameters.items())
    cdf = prompt.law.distribution.cdf(ends, **prompt.law.scipy_kwargs)
    return {
        "split": prompt.split,
        "title": f"{get_family(prompt.family).display_name}: {parameters}",
        "text": prompt.text,
        "edges": [float(f"{edge:.6g}") for edge in edges_of(prompt.law, ends)],
        "target": np.round(np.diff(cdf), 5).tolist(),
    }


def _evaluation(
    evaluations: Evaluations, model: str, condition: str, prompts: Mapping[str, Prompt], ends: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    """One evaluation by prompt; empty where there is none."""

    def shown(name: str, *columns: str) -> pd.DataFrame:
        path = evaluations.path("structured", model, condition, f"{name}.parquet")
        if path is None:
            return pd.DataFrame(columns=["prompt_id", *columns])
        table = read_table(path, ("prompt_id", *columns))
        return table[table["prompt_id"].isin(prompts)]

    found = {row["prompt_id"]: _numbers(row) for row in shown("per_prompt").to_dict("records")}
    for row in shown("samples", "values").itertuples():
        if len(row.values):
            counts, _ = np.histogram(row.values, edges_of(prompts[row.prompt_id].law, ends[row.prompt_id]))
            found.setdefault(row.prompt_id, {})["samples"] = np.round(counts / len(row.values), 5).tolist()
    for prompt_id, rows in shown("exact_cdf", "x", "cdf_low", "cdf_high").groupby("prompt_id", sort=False):
        bounds = (rows[name].to_numpy(float) for name in ("x", "cdf_low", "cdf_high"))
        masses = exact_masses(prompts[prompt_id].law, ends[prompt_id], *bounds)
        found.setdefault(prompt_id, {})["exact"] = masses
    return found


def _numbers(row: Mapping[str, Any]) -> dict[str, Any]:
    """NUMBERS of a row of ``per_prompt``, undefined ones None, and counts of invalid answers by reason."""
    values = {key: row.get(column) for key, column in NUMBERS.items()}
    numbers = {
        key: None if value is None or not math.isfinite(value) else float(f"{value:.5g}")
        for key, value in values.items()
    }
    reasons = {name.removeprefix("invalid_"): int(n) for name, n in row.items() if name.startswith("invalid_") and n}
    return {**numbers, "invalid": reasons}
