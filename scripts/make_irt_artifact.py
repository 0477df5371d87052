"""Make ``data/irt.npz``: item parameters in the published schema, drawn at random.

They belong to no real item. The demo's items were written by hand and answered by too few models to fit item
parameters, so its gp-IRT numbers exercise the estimator and mean nothing beyond that; accuracies and paired tests do
not use them. Run from the root of the repository: ``python -m scripts.make_irt_artifact``.
"""

import sys
from pathlib import Path

import numpy as np
from scipy.spatial.distance import cdist

from pipeline.artifacts.irt_artifact import convert_published, write_irt
from pipeline.core.random_streams import random_stream
from pipeline.core.retention.irt import balance_weights

SEED = 0
DIMENSIONS = 2
NUM_SEEN = 100
SUBSCENARIOS = {
    "mmlu": {f"subject_{i}": size for i, size in enumerate((60, 150, 90, 210, 40, 120, 80, 250))},
    "truthfulqa": {"truthfulqa": 600},
    "gsm8k": {"gsm8k": 800},
    "winogrande": {"winogrande": 750},
    "hellaswag": {"hellaswag": 900},
}
"""Scenario -> sub-scenario -> number of items."""
LAMBDAS = {"mmlu": 0.45, "truthfulqa": 0.55, "gsm8k": 0.5, "winogrande": 0.4, "hellaswag": 0.5}
BENCHMARKS = {"lb": ("truthfulqa", "gsm8k", "winogrande", "hellaswag"), "mmlu": ("mmlu",)}


def synthetic_benchmark(name: str) -> dict:
    """One benchmark of the published structure (see ``pipeline.artifacts.irt_artifact``).

    Discriminations are log-normal, difficulties normal. Seen items are a random sample; each stands for the items whose
    parameters are nearest to its own, and its weight is their share (as with the published anchor items, which are
    cluster centres).
    """
    bench = {"scenarios_position": {}, "subscenarios_position": {}, "examples_weights": {}, "seen_examples": []}
    first = 0
    for scenario in BENCHMARKS[name]:
        bench["subscenarios_position"][scenario] = {}
        start = first
        for subscenario, size in SUBSCENARIOS[scenario].items():
            bench["subscenarios_position"][scenario][subscenario] = list(range(first, first + size))
            first += size
        bench["scenarios_position"][scenario] = list(range(start, first))
    rng = random_stream(SEED, "irt_artifact", name)
    a = np.round(rng.lognormal(-0.3, 0.4, size=(1, DIMENSIONS, first)), 3)
    b = np.round(rng.normal(0, 0.8, size=(1, DIMENSIONS, first)), 3)
    points = np.concatenate([a[0], b[0]]).T
    for scenario, positions in bench["scenarios_position"].items():
        positions = np.array(positions)
        seen = rng.choice(positions, size=NUM_SEEN, replace=False)
        members = [np.array(sub) - positions[0] for sub in bench["subscenarios_position"][scenario].values()]
        nearest = cdist(points[positions], points[seen]).argmin(axis=1)
        weights = np.bincount(nearest, balance_weights(members, len(positions)), NUM_SEEN) / len(positions)
        bench["seen_examples"] += seen.tolist()
        bench["examples_weights"][scenario] = weights
    lambdas = {scenario: LAMBDAS[scenario] for scenario in BENCHMARKS[name]}
    return {**bench, "irt_parameters": {"A": a, "B": b}, "optimal_lambdas": lambdas}


def synthetic_content() -> dict:
    """The published structure with all benchmarks that the five tasks need."""
    return {name: synthetic_benchmark(name) for name in BENCHMARKS}


if __name__ == "__main__":
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("data/irt.npz")
    write_irt(output, convert_published(synthetic_content(), "synthetic item parameters"))
    print(f"wrote {output}")
