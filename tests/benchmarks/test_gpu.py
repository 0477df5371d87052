"""The GPU check: whole on tiny models of all architectures, its time limit, its failures, and the rates it writes."""

import json
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
import yaml

from benchmarks.gpu import __main__ as gpu
from benchmarks.gpu import cases, report
from benchmarks.gpu.shapes import SHAPES, TINY, empty_model
from pipeline.config.params import load_params
from pipeline.engines.sampling import preflight_law
from pipeline.errors import ConfigError, ModelError
from pipeline.estimates import cost
from pipeline.estimates.prices import Prices
from pipeline.estimates.rates import read_rates
from tests import vllm_stand_in
from tests.conftest import ROOT

pytestmark = pytest.mark.slow

SMALL = {"repeats": 1, "num_samples": 64, "rows": 64}
check = partial(gpu.check, backend="eager", **SMALL)


@pytest.mark.parametrize(("shapes", "without"), [(TINY[:1], ()), (TINY[1:], ("laws",))], ids=["all cases", "others"])
def test_the_check_on_tiny_models_of_all_architectures(tmp_path, monkeypatch, shapes, without):
    # What engines sample is compared with the exact law on one of them, as it takes longer than all the rest.
    monkeypatch.setattr(gpu, "CASES", tuple(case for case in gpu.CASES if case not in without))
    # Two passes in a training step, and as few samples as show an engine that cuts a twentieth off.
    monkeypatch.setattr(cases, "NUM_PROMPTS", 10)
    monkeypatch.setattr(preflight_law, "NUM_SAMPLES", 800)
    # Compilers take minutes on a slow machine.
    with torch.compiler.set_stance("force_eager"):
        found = check(shapes, "cpu", tmp_path, 60)
    written = json.loads((tmp_path / "check.json").read_text())
    assert written["rows"] == found.rows and [(row["shape"], row["case"]) for row in found.rows] == [
        (shape, case) for shape in shapes for case in gpu.CASES
    ]
    assert {row["status"] for row in found.rows} == {"measured"}, found.rows
    rows = {(row["shape"], row["case"]): row for row in found.rows}
    for shape in shapes:
        few, packed, compiled = (rows[shape, case] for case in ("train_paths", "train_packed", "compile"))
        assert few["tokens"] < packed["tokens"] == compiled["tokens"] and compiled["ratio"] > 0
        assert packed["planned_gb"] > rows[shape, "load"]["planned_gb"] > 0
        assert rows[shape, "sample"]["tokens"] == 64 * cases.ANSWER_TOKENS
        if "laws" not in without:
            laws = rows[shape, "laws"]
            assert set(laws["p_values"]) == {"ours", "plain generate"}
            assert min(laws["power"].values()) > 0.9, laws["power"]
    text = (tmp_path / "report.md").read_text()
    assert all(f"## {shape}" in text for shape in shapes) and "attention kernels: " in text

    rates = read_rates(tmp_path / "rates.json")
    assert {shape: model.experts for shape, model in rates.models.items()} == {
        shape: shape == "tiny_gpt_oss" for shape in shapes
    }
    params = load_params(ROOT / "params.yaml")
    soft = Prices(params, ROOT, rates).training("embedded", "soft")
    assert soft.gpu_hours > 0 and soft.gpu_hours != Prices(params, ROOT).training("embedded", "soft").gpu_hours


@pytest.fixture
def measured(monkeypatch):
    """``Measurements`` that take no time; a case's figures may be replaced by a function."""
    instead = {}

    class Fake:
        def __init__(self, name, **settings):
            pass

        def __getattr__(self, case):
            return instead.get(case, lambda *_: {"seconds": 1.0, "tokens": 10, "tokens_per_second": 10.0})

    monkeypatch.setattr(gpu, "Measurements", Fake)
    monkeypatch.setattr(gpu, "facts", lambda device, dtype: {"device": "none", "torch": "2", "transformers": "5"})
    monkeypatch.setattr(gpu, "release", lambda: None)
    monkeypatch.setattr(gpu, "matmul_ceiling", lambda device, dtype: 1.0)
    return instead


def statuses(found):
    return {row["case"]: row["status"] for row in found.rows}


def test_without_time_everything_is_skipped_and_said(tmp_path, measured):
    (tmp_path / "rates.json").write_text("{}")
    found = check(["tiny_qwen3"], "cpu", tmp_path, 0)
    assert set(statuses(found).values()) == {"skipped"} and "skipped: no time left" in found_text(tmp_path)
    # Rates of an earlier check are not this one's.
    assert not (tmp_path / "rates.json").exists()


def found_text(directory: Path) -> str:
    return (directory / "report.md").read_text()


def test_a_case_that_takes_too_long_ends_with_its_models_share_of_the_time(tmp_path, measured):
    seen = []

    def slow():
        seen.append(json.loads((tmp_path / "check.json").read_text())["rows"])
        time.sleep(300)

    measured["train_packed"] = slow
    started = time.monotonic()
    found = check(["tiny_qwen3", "tiny_llama3"], "cpu", tmp_path, 1 / 60)
    assert time.monotonic() - started < 100
    first, second = ([row for row in found.rows if row["shape"] == shape] for shape in ("tiny_qwen3", "tiny_llama3"))
    assert [row["status"] for row in first] == [row["status"] for row in second]
    assert [row["status"] for row in first] == ["measured"] * 2 + ["skipped"] * 6
    assert "s that were left" in first[2]["reason"] and first[3]["reason"] == "no time left"
    # What was there was written before.
    assert [row["case"] for row in seen[0]] == ["load", "train_paths"] and len(seen[1]) == len(gpu.CASES) + 2


def test_a_case_that_fails_is_one_line_and_the_others_go_on(tmp_path, measured):
    def fails(*_):
        raise RuntimeError("no such kernel\nat 0x0")

    measured["compile"] = measured["score"] = fails
    with pytest.raises(ModelError, match=r"failed: tiny_qwen3 score, tiny_qwen3 compile; .*report\.md"):
        gpu.main(["tiny_qwen3"], 1.0, tmp_path)
    rows = {row["case"]: row for row in json.loads((tmp_path / "check.json").read_text())["rows"]}
    assert rows["score"]["reason"] == rows["compile"]["reason"] == "RuntimeError: no such kernel"
    assert [case for case, row in rows.items() if row["status"] == "measured"] == [
        case for case in gpu.CASES if case not in ("score", "compile")
    ]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_one_sentence_says_what_can_be_run(tmp_path):
    with pytest.raises(ConfigError, match=r"^no GPU: torch .*; `make gpu-check ARGS='--shapes tiny'` runs"):
        gpu.main(["tiny", "qwen3_8b"], 1.0, tmp_path)
    assert not list(tmp_path.iterdir())


def test_an_engine_that_samples_another_law_is_named(monkeypatch):
    class Sharper(cases.PlainGenerate):
        def sample(self, requests):
            return super().sample([replace(request, temperature=0.8) for request in requests])

    monkeypatch.setattr(cases, "PlainGenerate", Sharper)
    monkeypatch.setattr(preflight_law, "NUM_SAMPLES", 400)
    model = cases.Measurements("tiny_llama3", "cpu", "float32", peak=None, ceiling=1.0, **SMALL)
    with pytest.raises(ModelError, match="^plain generate: tiny_llama3: the samples do not follow"):
        model.laws()


def test_vllm_gets_the_models_own_weights(monkeypatch):
    vllm_stand_in.install(monkeypatch)
    monkeypatch.setattr(preflight_law, "NUM_SAMPLES", 200)
    model = cases.Measurements("tiny_llama3", "cpu", "float32", peak=None, ceiling=1.0, **SMALL)
    assert list(model.laws_vllm()["p_values"]) == ["vllm"]
    theirs = dict(vllm_stand_in.LLM.calls[-1].model.named_parameters())
    own = {name.replace(".base_layer", ""): value for name, value in model.base.named_parameters()}
    assert all(torch.equal(own[name], value) for name, value in theirs.items())


@pytest.mark.parametrize("name", [name for name in SHAPES if (ROOT / f"conf/model/{name}.yaml").exists()])
def test_shapes_have_the_weights_of_the_papers_models(name):
    weights = sum(parameter.numel() for parameter in empty_model(SHAPES[name]).parameters())
    stated = yaml.safe_load((ROOT / f"conf/model/{name}.yaml").read_text())["num_parameters"]
    # Gemma 3 from 4B up: the vision tower and its projection, 0.4 billion.
    tower = 0.43e9 if name in ("gemma3_4b", "gemma3_12b", "gemma3_27b") else 0
    assert weights == stated if not tower else 0 < stated - weights < tower


def kept_bytes(name: str, layers: int) -> float:
    """What autograd keeps of a token in so many layers with adapters."""
    model = cases.with_adapter(empty_model(replace(SHAPES[name], layers=layers, vocabulary=64))).train()
    weights = {parameter.untyped_storage()._cdata for parameter in model.parameters()}
    kept = {}

    def keep(value):
        kept[value.untyped_storage()._cdata] = value.untyped_storage()
        return value

    ids = torch.zeros(8, 70, dtype=torch.long, device="meta")
    mask = torch.ones(8, 1, 70, 70, dtype=torch.bool, device="meta")
    if SHAPES[name].architecture == "gemma3":
        mask = {"full_attention": mask, "sliding_attention": mask}
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value):
        output = model.get_base_model().base_model(input_ids=ids, attention_mask=mask, use_cache=False)
    del output
    return sum(storage.nbytes() for key, storage in kept.items() if key not in weights) / ids.numel()


@pytest.mark.parametrize("name", ["qwen3_8b", "llama3_1_8b", "gemma3_27b"])
def test_the_plans_activations_are_what_autograd_keeps(name):
    one, two = kept_bytes(name, 1), kept_bytes(name, 2)
    weights = sum(parameter.numel() for parameter in empty_model(SHAPES[name]).parameters())
    planned = cost.training_memory_bytes(weights, 1000, 16, 4) - cost.training_memory_bytes(weights, 0, 16, 4)
    assert planned == pytest.approx(1000 * (one + (SHAPES[name].layers - 1) * (two - one)), rel=0.3)


ENVIRONMENT = {"device": "X", "started": "2026-01-02T00:00:00", "torch": "2", "transformers": "5", "commit": "abc"}


def rows_of(few: tuple[float, int], many: tuple[float, int]) -> list[dict]:
    figures = {
        "load": {"parameters": 7},
        "train_paths": {"seconds": few[0], "tokens": few[1]},
        "train_packed": {"seconds": many[0], "tokens": many[1]},
        "score": {"tokens_per_second": 50.0},
        "sample": {"rows": 64, "decoding_step": 0.5},
    }
    return [{"shape": "tiny_qwen3", "case": case, "status": "measured", **own} for case, own in figures.items()]


@pytest.mark.parametrize(
    "few, many, step, token",
    [
        # 0.5 s and a hundredth of a second for each token.
        ((1.5, 100), (3.5, 300), 0.5, 0.01),
        # More tokens in less time, or time out of proportion to them: all of the time is the tokens'.
        ((2.0, 100), (1.5, 300), 0.0, 0.005),
        ((0.5, 100), (3.0, 300), 0.0, 0.01),
    ],
)
def test_times_of_steps_and_tokens(few, many, step, token):
    found = report.rates(ENVIRONMENT, rows_of(few, many))
    model = found["models"]["tiny_qwen3"]
    assert (model["training_step"], model["training_token"]) == pytest.approx((step, token))
    assert (model["reading_token"], model["decoding_step"], found["decoding_rows"]) == (0.02, 0.5, 64)
    assert found["measured"].startswith("2026-01-02") and not model["experts"]


def test_a_model_with_a_case_that_is_missing_has_no_rates():
    rows = rows_of((1.5, 100), (3.5, 300))
    rows[3] |= {"status": "failed", "reason": "x"}
    assert report.rates(ENVIRONMENT, rows) is None
