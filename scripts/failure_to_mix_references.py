"""What known samplers score on Failure to Mix: rows of results/public/references.csv.

Run from the root of the repository: ``python -m scripts.failure_to_mix_references SOURCE``, a clone of the benchmark.
Its script makes the requests, reads the answers and scores them as it is; only its call to a model is replaced, by a
draw by the chances that the request states.
"""

import argparse
import asyncio
import contextlib
import importlib
import io
import re
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tqdm import trange

from pipeline.public.failure_to_mix import EXPERIMENTS, script_of


def options_and_chances(request: str) -> tuple[list[str], np.ndarray]:
    """What a request offers and its chances; in a decision these follow the two counts or stakes that it names."""
    stated = re.findall(r'"([^"]+)"[^"%]*?(\d+)%', request)
    if stated:
        options, weights = zip(*stated, strict=True)
    else:
        options = re.search(r'ONLY "(\w+)" or "(\w+)"', request).groups()
        weights = re.findall(r"\d+(?:\.\d+)?", request)[:2]
    weights = np.array(weights, dtype=float)
    return list(options), weights / weights.sum()


def likeliest(chances: np.ndarray) -> np.ndarray:
    """All on the option with the greatest chance, shared where several have it."""
    greatest = np.isclose(chances, chances.max())
    return greatest / greatest.sum()


SAMPLERS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], str]] = {
    "Perfect sampler": (lambda chances: chances, "gene "),
    "Perfect sampler, bare letters": (lambda chances: chances, ""),
    "Fair choice": (lambda chances: np.full(len(chances), 1 / len(chances)), "gene "),
    "Likeliest option": (likeliest, "gene "),
}
"""By name the chances that are drawn by, of those stated, and what stands before a gene's letter."""


def scores_of(benchmark: Any, sampler: str, rng: np.random.Generator) -> list[float]:
    """Points in each experiment, in one run of the benchmark."""
    follow, before_letter = SAMPLERS[sampler]

    async def call(*arguments: Any) -> str:
        request = arguments[2]
        options, chances = options_and_chances(request)
        drawn = rng.choice(options, size=2 if "twice" in request else 1, p=follow(chances))
        return ",".join(before_letter + option if option in ("A", "B") else option for option in drawn)

    benchmark.ModelCaller.call = call
    config = benchmark.Config(api_keys=["none"])
    kinds = [kind for name, kind in sorted(vars(benchmark).items()) if re.match(r"Exp\d_", name)]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return [asyncio.run(kind(config).run()).score for kind in kinds]


def main() -> None:
    """Print means and standard deviations over runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path, help="a clone of the benchmark's repository")
    parser.add_argument("--runs", type=int, default=100)
    options = parser.parse_args()
    sys.path.insert(0, str(script_of(options.source).parent))
    # Only notebooks need it.
    sys.modules["nest_asyncio"] = types.SimpleNamespace(apply=lambda: None)
    benchmark = importlib.import_module("benchmark")
    for sampler in SAMPLERS:
        rng = np.random.default_rng(0)
        scores = [scores_of(benchmark, sampler, rng) for _ in trange(options.runs, desc=sampler, unit="run")]
        table = pd.DataFrame(scores, columns=list(EXPERIMENTS))
        table["total"] = table.sum(axis=1)
        print(f"{sampler}\n{table.agg(['mean', 'std']).round(2)}\n", flush=True)


if __name__ == "__main__":
    main()
