"""The data behind the page's explorer: every model's answers to every structured prompt, made small."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pipeline.artifacts.storage import read_table
from pipeline.config.evaluation import BASELINES
from pipeline.core.laws.families import get_family
from pipeline.core.prompts.structured import Prompt
from pipeline.report.evaluations import Evaluations
from pipeline.report.page.explorer_views import (
    Columns,
    Window,
    exact_view,
    law_view,
    law_window,
    pit_view,
    sample_view,
)

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


def shown_prompts(prompts: Sequence[Prompt], evaluations: int, limit: int = MAX_RESULTS) -> list[Prompt]:
    """The prompts that fit on a page: as many per split and family as the limit allows, evenly spaced, at least one.

    ``evaluations`` is the number of models times conditions, ``limit`` the most results on a page.
    """
    sizes = Counter((prompt.split, prompt.family) for prompt in prompts)
    most = max(sizes.values(), default=0)
    while most > 1 and evaluations * sum(min(size, most) for size in sizes.values()) > limit:
        most -= 1
    kept = {key: set(np.linspace(0, size - 1, min(size, most)).astype(int).tolist()) for key, size in sizes.items()}
    places: Counter = Counter()
    chosen = []
    for prompt in prompts:
        key = (prompt.split, prompt.family)
        if places[key] in kept[key]:
            chosen.append(prompt)
        places[key] += 1
    return chosen


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
    names = (AXIS, model, condition)
    path = evaluations.path(*names, "per_prompt.parquet")
    records = [] if path is None else read_table(path, ()).to_dict("records")
    found = {row["prompt_id"]: _numbers(row) for row in records}
    absent = {}
    if (path := evaluations.path(*names, "samples.parquet")) is not None:
        samples = read_table(path, ("prompt_id", "values"))
        for prompt_id, values in zip(samples["prompt_id"], samples["values"], strict=True):
            if prompt_id in windows:
                view = sample_view(np.asarray(values, dtype=np.float64), windows[prompt_id])
                found.setdefault(prompt_id, {})["samples"] = view
    else:
        absent["samples"] = _reason("samples", "samples", condition)
    for view, (name, columns) in TABLES.items():
        path = evaluations.path(*names, f"{name}.parquet")
        if path is None:
            absent[view] = _reason(view, name, condition)
            continue
        for prompt_id, rows in _by_prompt(read_table(path, columns), windows):
            shown = exact_view(rows, windows[prompt_id]) if view == "exact" else pit_view(rows)
            found.setdefault(prompt_id, {})[view] = shown
    kept = {prompt_id: values for prompt_id, values in found.items() if prompt_id in windows}
    return {"source": evaluations.sources[names], "absent": absent, "prompts": kept}


def _by_prompt(table: pd.DataFrame, windows: Mapping[str, Window]) -> Iterator[tuple[str, Columns]]:
    """Columns of each prompt's rows; a data frame per prompt would take ten times as long."""
    columns = {name: table[name].to_numpy() for name in table.columns}
    for prompt_id, rows in table.groupby("prompt_id", sort=False).indices.items():
        if prompt_id in windows:
            yield prompt_id, {name: values[rows] for name, values in columns.items()}


def _reason(view: str, name: str, condition: str) -> str:
    if view == "exact" and condition in BASELINES:
        return "evaluated on samples alone"
    return f"the evaluation has no {name}.parquet (it is older than this table, or was made without its source)"


def _numbers(row: Mapping[str, Any]) -> dict[str, Any]:
    """Sample sizes, reasons of invalid answers, and NUMBERS of one row of ``per_prompt``; undefined is None."""
    invalid = {
        name.removeprefix("invalid_"): int(count)
        for name, count in row.items()
        if name.startswith("invalid_") and count
    }
    numbers = {}
    for key, column in NUMBERS.items():
        value = row.get(column)
        numbers[key] = float(f"{value:.5g}") if value is not None and math.isfinite(value) else None
    return {"n": int(row["num_samples"]), "valid": int(row["num_valid"]), "invalid": invalid, **numbers}
