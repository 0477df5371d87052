"""The cost model: pieces worked out by hand, totals that the paper states, recorded runs."""

import json
import statistics
from pathlib import Path

import pytest

from pipeline.config.params import validate
from pipeline.core.prompts.structured import build_split
from pipeline.dag.graph import StageGraph
from pipeline.estimates import cost
from pipeline.estimates.cost import Cost
from pipeline.estimates.prices import TEMPLATE_TOKENS, Prices
from tests.composition import composed_params
from tests.conftest import ROOT

pytestmark = pytest.mark.slow

BILLION = 10**9


def prices_of(*overrides: str) -> Prices:
    return Prices(validate(composed_params(*overrides)), ROOT)


def test_hours_by_hand():
    # 9.36e13 operations a second: 46.8 million tokens of a billion parameters take 9.36e16.
    assert cost.work_hours(BILLION, reading_tokens=46.8e6) == pytest.approx(1000 / 3600)
    # Twice as many operations, at 2.028e13 a second.
    assert cost.work_hours(BILLION, training_tokens=5.07e6) == pytest.approx(1000 / 3600)
    assert cost.work_hours(BILLION, decoding_steps=100) == pytest.approx(100 * (0.025 + 2 / 1400) / 3600)
    assert Cost(1, 2, 3) + Cost(10, 20, 30) == Cost(11, 22, 33)


@pytest.mark.parametrize(("limit", "width"), [("null", None), ("256", 256)])
def test_memory_of_training_by_hand(limit, width):
    # Eight prompts with a path of nine tokens each; 15.3 million weights at rank 16, their gradients
    # and two moments in float32.
    mean = statistics.fmean(cost.estimate_tokens(prompt.text) for prompt in build_split("train"))
    tokens, size = width or 8 * (mean + TEMPLATE_TOKENS + 9), 8190735360
    by_hand = 2 * size + 16 * 15.3e6 + 2.5 * size ** (2 / 3) * tokens + 2**29
    prices = prices_of("experiment=paper", "axes=[structured,mcq]", f"train.tokens_per_pass={limit}")
    assert prices.training_memory("qwen3_8b") == pytest.approx(by_hand, rel=1e-3)


@pytest.fixture(scope="module")
def paper_hours() -> dict[str, list[float]]:
    """GPU hours of the paper's experiment by stage or part, one entry per run; it scored PALOMA without BOS, and
    of GSM8K the tiny task alone."""
    tasks = "retention.tasks=[tinyMMLU,tinyHellaswag,tinyTruthfulQA,tinyWinogrande,tinyGSM8k]"
    params = validate(composed_params("experiment=paper", "paloma.bos=[none]", tasks))
    prices, hours = Prices(params, Path(ROOT)), {}
    for stage, row in (piece for node in StageGraph(params).values() for piece in node.pieces):
        hours.setdefault(stage.name, []).append(stage.price(prices, row).gpu_hours)
    return hours


@pytest.mark.parametrize(
    "stages, stated",
    [
        (("train-soft",), 2.6),
        (("train-hard",), 26.7),
        (("generate-structured", "score-structured"), 4.5),
        (("generate-open", "score-open"), 3.1),
        (("generate-mcq",), 17.6),
        (("score-retention",), 4.8),
        (("score-paloma",), 11.5),
        (("generate-novelty", "partition-novelty", "reward-novelty"), 194.0),
    ],
    ids=["soft", "hard", "structured", "open", "mcq", "retention", "paloma", "novelty"],
)
def test_totals_that_the_paper_states(paper_hours, stages, stated):
    """Training within 5%, an evaluation within a factor of 1.6."""
    ratio = sum(sum(paper_hours[stage]) for stage in stages) / stated
    assert abs(ratio - 1) < 0.05 if stages[0].startswith("train") else 1 / 1.6 < ratio < 1.6
    assert not any(paper_hours["eval-structured"]) and not any(paper_hours["report"])


@pytest.mark.parametrize("method", ["soft", "hard", "anchored"])
@pytest.mark.parametrize(
    "experiment, adapters", [("laptop", "laptop/adapters"), ("laptop_longer", "laptop_longer/seed_0/adapters")]
)
def test_tokens_of_recorded_runs_within_a_factor_of_two(experiment, adapters, method):
    record = json.loads((ROOT / "results" / adapters / "smollm2" / method / "provenance.json").read_text())
    planned = prices_of(f"experiment={experiment}").training("smollm2", method)
    assert 0.5 < (planned.prompt_tokens + planned.completion_tokens) / record["tokens_read"] < 2
