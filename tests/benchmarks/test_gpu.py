"""The GPU check: whole on tiny models of all architectures, its time limit and its failures."""

import json
import time
from functools import partial

import pytest
import torch
import yaml

from benchmarks.gpu import __main__ as gpu
from benchmarks.gpu import cases
from benchmarks.gpu.shapes import SHAPES, TINY, empty_model
from pipeline.engines.sampling import preflight_law
from pipeline.errors import ConfigError, ModelError
from tests.conftest import ROOT

pytestmark = pytest.mark.slow

SMALL = {"repeats": 1, "num_samples": 64, "rows": 64}
check = partial(gpu.check, **SMALL)


@pytest.mark.parametrize(("shapes", "without"), [(TINY[:1], ()), (TINY[1:], ("laws",))], ids=["all cases", "others"])
def test_the_check_on_tiny_models_of_all_architectures(tmp_path, monkeypatch, shapes, without):
    # What engines sample is compared with the exact law on one of them, as it takes longer than all the rest.
    monkeypatch.setattr(gpu, "CASES", tuple(case for case in gpu.CASES if case not in without))
    # Two passes in a training step, and as few samples as show an engine that cuts a twentieth off.
    monkeypatch.setattr(cases, "NUM_PROMPTS", 10)
    monkeypatch.setattr(preflight_law, "NUM_SAMPLES", 1500)
    found = check(shapes, "cpu", tmp_path, 60)
    written = json.loads((tmp_path / "check.json").read_text())
    assert written["rows"] == found.rows and [(row["shape"], row["case"]) for row in found.rows] == [
        (shape, case) for shape in shapes for case in gpu.CASES
    ]
    assert {row["status"] for row in found.rows} == {"measured"}, found.rows
    rows = {(row["shape"], row["case"]): row for row in found.rows}
    for shape in shapes:
        assert rows[shape, "train_paths"]["tokens"] < rows[shape, "train_packed"]["tokens"]
        if "laws" not in without:
            assert set(rows[shape, "laws"]["p_values"]) == {"ours", "plain generate"}
            assert min(rows[shape, "laws"]["power"].values()) > 0.9
    text = (tmp_path / "report.md").read_text()
    assert all(f"## {shape}" in text for shape in shapes) and "attention kernels: " in text


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
    # It collects garbage of all tests before.
    monkeypatch.setattr(gpu, "_release", lambda: None)
    monkeypatch.setattr(gpu, "matmul_ceiling", lambda device, dtype: 1.0)
    return instead


def test_a_case_that_takes_too_long_ends_with_its_models_share_of_the_time(tmp_path, measured):
    measured["train_packed"] = lambda: time.sleep(300)
    started = time.monotonic()
    found = check(["tiny_qwen3", "tiny_llama3"], "cpu", tmp_path, 1 / 6)
    assert time.monotonic() - started < 100
    for shape in ("tiny_qwen3", "tiny_llama3"):
        rows = [row for row in found.rows if row["shape"] == shape]
        assert [row["status"] for row in rows] == ["measured"] * 2 + ["skipped"] * 5
        assert "s that were left" in rows[2]["reason"] and rows[3]["reason"] == "no time left"
    assert "skipped: no time left" in (tmp_path / "report.md").read_text()


def test_a_case_that_fails_is_one_line_and_the_others_go_on(tmp_path, measured):
    def fails(*_):
        raise RuntimeError("no such kernel\nat 0x0")

    measured["sample"] = measured["score"] = fails
    with pytest.raises(ModelError, match=r"failed: tiny_qwen3 score, tiny_qwen3 sample; .*report\.md"):
        gpu.main(["tiny_qwen3"], 1.0, tmp_path)
    rows = {row["case"]: row for row in json.loads((tmp_path / "check.json").read_text())["rows"]}
    assert rows["score"]["reason"] == rows["sample"]["reason"] == "RuntimeError: no such kernel"
    others = {case for case, row in rows.items() if row["status"] == "measured"}
    assert others == set(gpu.CASES) - {"score", "sample"}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_one_sentence_says_what_can_be_run(tmp_path):
    with pytest.raises(ConfigError, match=r"^no GPU: torch .*; `make gpu-check ARGS='--shapes tiny'` runs"):
        gpu.main(["tiny", "qwen3_8b"], 1.0, tmp_path)


@pytest.mark.parametrize("name", [name for name in SHAPES if (ROOT / f"conf/model/{name}.yaml").exists()])
def test_shapes_have_the_weights_of_the_papers_models(name):
    weights = sum(parameter.numel() for parameter in empty_model(SHAPES[name]).parameters())
    stated = yaml.safe_load((ROOT / f"conf/model/{name}.yaml").read_text())["num_parameters"]
    # Gemma 3 from 4B up: the vision tower and its projection, 0.4 billion.
    tower = 0.43e9 if name in ("gemma3_4b", "gemma3_12b", "gemma3_27b") else 0
    assert weights == stated if not tower else 0 < stated - weights < tower
