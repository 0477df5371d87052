"""Rates of a device: files that are read or refused, sizes between those measured, and hours of a plan."""

import json
import re
from pathlib import Path

import pytest
import yaml

from pipeline.compose import compose_params
from pipeline.config.params import validate
from pipeline.errors import ArtifactError, ConfigError
from pipeline.estimates import cost
from pipeline.estimates.prices import Prices
from pipeline.estimates.rates import Rates, read_rates
from pipeline.runs.plan import main as plan
from pipeline.runs.spent import spent_table
from pipeline.sweep.cells import make_cell
from pipeline.sweep.results import run_table
from pipeline.sweep.run import run_cell
from pipeline.sweep.settings import sweep_config
from tests.conftest import ROOT

pytestmark = pytest.mark.slow

BILLION = 10**9
SMALL = {
    "num_parameters": BILLION,
    "experts": False,
    "training_step": 0.1,
    "training_token": 1e-5,
    "reading_token": 2e-6,
    "decoding_step": 0.03,
}
LARGE = {
    "num_parameters": 9 * BILLION,
    "experts": False,
    "training_step": 0.3,
    "training_token": 9e-5,
    "reading_token": 18e-6,
    "decoding_step": 0.05,
}
EXPERTS = LARGE | {"num_parameters": 20 * BILLION, "experts": True, "reading_token": 5e-6}
FILE = {
    "device": "NVIDIA X",
    "measured": "2026-01-01",
    "decoding_rows": 100,
    "models": {"large": LARGE, "small": SMALL, "experts": EXPERTS},
}


@pytest.fixture
def rates(tmp_path) -> Rates:
    path = tmp_path / "rates.json"
    path.write_text(json.dumps(FILE))
    return read_rates(path)


@pytest.mark.parametrize(
    "change, said",
    [
        ({"device": ""}, "device: .*at least 1 character"),
        ({"models": {}}, "models: .*at least 1 item"),
        ({"models": {"m": SMALL | {"training_token": 0}}}, r"models\.m\.training_token: .*greater than 0, got 0"),
        ({"models": {"m": SMALL | {"reading_token": "fast"}}}, r"models\.m\.reading_token: .*number.*got 'fast'"),
        ({"models": {"m": {**SMALL, "speed": 1.0}}}, r"models\.m\.speed: unknown key; .*training_step"),
        ({"decoding_rows": 0}, "decoding_rows: .*greater than or equal to 1"),
    ],
)
def test_a_file_that_is_not_allowed_is_refused_by_key(tmp_path, change, said):
    path = tmp_path / "rates.json"
    path.write_text(json.dumps(FILE | change))
    with pytest.raises(ConfigError, match=rf"rates\.json: {said}"):
        read_rates(path)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(ArtifactError, match=r"rates\.json does not exist; `make gpu-check` writes rates"):
        read_rates(tmp_path / "rates.json")
    (tmp_path / "rates.json").write_text("[1]")
    with pytest.raises(ConfigError, match=r"rates\.json"):
        read_rates(tmp_path / "rates.json")


@pytest.mark.parametrize(
    "billions, expected",
    [(0.2, 2e-6), (1, 2e-6), (5, 10e-6), (9, 18e-6), (9.05, 18e-6), (12, 24e-6), (20, 5e-6), (27, 54e-6)],
    ids=["smaller", "measured", "between", "measured too", "nearly", "larger", "experts", "largest"],
)
def test_rates_of_other_sizes(rates, billions, expected):
    assert rates.seconds("reading_token", int(billions * BILLION)) == pytest.approx(expected)


def test_experts_alone_stand_for_all(tmp_path):
    (tmp_path / "rates.json").write_text(json.dumps(FILE | {"models": {"m": EXPERTS}}))
    assert read_rates(tmp_path / "rates.json").seconds("reading_token", 40 * BILLION) == pytest.approx(10e-6)


def test_hours_by_hand(rates):
    assert cost.work_hours(BILLION, rates, training_step=10, training_token=1000) == pytest.approx(1.01 / 3600)
    assert cost.work_hours(BILLION, rates, reading_token=1000, decoding_step=10) == pytest.approx(0.302 / 3600)


def test_a_plan_takes_the_hours_of_the_rates(tmp_path, capsys):
    paths = [tmp_path / name for name in ("params.yaml", "rates.json", "plan.csv")]
    values = compose_params(ROOT / "conf", ["experiment=paper", "axes=[structured,mcq]"])
    paths[0].write_text(yaml.safe_dump(values))
    # Every model takes the same time, whatever its size: as large as the smallest of them.
    same = SMALL | {"num_parameters": 10**12}
    paths[1].write_text(json.dumps(FILE | {"models": {"m": same}}))
    plan(paths[0], paths[2], all_stages=True, rates=paths[1])
    printed = capsys.readouterr().out
    assert re.search(r"GPU that trains by itself, GB: .*\bqwen3_8b 24\.\d\b", printed)
    assert "those of one NVIDIA X" in printed and "2026-01-01" in printed and "A100" not in printed

    params = validate(values)
    measured = Prices(params, Path(ROOT), read_rates(paths[1]))
    soft = measured.training("qwen3_8b", "soft")
    tokens = soft.prompt_tokens + soft.completion_tokens
    assert soft.gpu_hours == pytest.approx((189 * 0.1 + tokens * 1e-5) / 3600)
    mcq = measured.generation("qwen3_8b", "mcq", "base")
    # A hundred rows were measured: fewer take as long, more take further steps.
    rows = min(params.generate.mcq.batch_size, 100)
    seconds = mcq.prompt_tokens * 2e-6 + mcq.completion_tokens / rows * 0.03
    assert mcq.gpu_hours == pytest.approx(seconds / 3600 + cost.loading_hours(8190735360))


def test_what_was_spent_is_compared_with_the_hours_of_the_rates(tmp_path, rates):
    params = validate(compose_params(ROOT / "conf", []) | {"artifacts": "artifacts"})
    path = tmp_path / "artifacts/adapters/embedded/soft/provenance.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"wall_time_seconds": 8.0, "device": "NVIDIA X"}))
    for given in (rates, None):
        (hours,) = spent_table(params, tmp_path, given)["planned_gpu_hours"]
        assert hours == Prices(params, tmp_path, given).training("embedded", "soft").gpu_hours


def test_a_sweeps_plan_takes_the_hours_of_the_rates(tmp_path, rates):
    values = yaml.safe_load((ROOT / "conf/sweep/chosen.yaml").read_text()) | {"directory": str(tmp_path / "sweeps")}
    cell = make_cell((), ["train-soft@embedded"], ROOT)
    planned = {}
    for path in (str(tmp_path / "rates.json"), None):
        config = sweep_config(values | {"plan": True, "rates": path, "cache": str(tmp_path / "cache")}, "test")
        planned[path] = run_cell(cell, ROOT, config)
    measured, papers = planned.values()
    given = Prices(cell.params, ROOT, rates)
    assert measured.gpu_hours == pytest.approx(sum(cell.graph[name].cost(given).gpu_hours for name in cell.stages))
    assert measured.tokens == papers.tokens and measured.gpu_hours != papers.gpu_hours
    assert "those of one NVIDIA X" in run_table([measured]) and "A100" not in run_table([measured])
    assert "those of A100s" in run_table([papers])
