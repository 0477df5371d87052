"""The adapter that lies with the recorded results, on the checkpoint it was trained for."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open

from pipeline.core.laws.families import FAMILIES
from tests.conftest import ROOT

ADAPTER = ROOT / "results/laptop_longer/adapter"


def answers(checkpoint, law, output, *options):
    """The valid answers of 250, as `make sample` draws them."""
    words = ["--law", *law, "--model", str(checkpoint), "--num-samples", "250", "--output", str(output), *options]
    done = subprocess.run([sys.executable, "-m", "pipeline.sample", *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return pd.to_numeric(pd.read_csv(output)["answer"], errors="coerce").dropna().to_numpy()


@pytest.mark.real
@pytest.mark.parametrize(
    "law", [("logistic", "mu=1", "s=0.8"), ("chi_square", "nu=9.5"), ("inverse_gaussian", "mu=1.3", "lambda=1.5")]
)
def test_it_samples_laws_between_those_it_was_trained_on(checkpoint, law, tmp_path):
    family, *pairs = law
    target = FAMILIES[family].law_at({name: float(value) for name, value in (pair.split("=") for pair in pairs)})
    found = answers(checkpoint, law, tmp_path / "adapter.csv", "--adapter", str(ADAPTER))
    assert len(found) > 0.9 * 250
    levels = np.sort(target.freeze().cdf(found))
    assert np.abs(levels - (np.arange(len(levels)) + 0.5) / len(levels)).mean() < 0.2
    # The base checkpoint answers in prose.
    assert len(answers(checkpoint, law, tmp_path / "base.csv")) < 0.2 * 250


def test_it_is_small_and_says_where_it_is_from():
    weights = ADAPTER / "adapter_model.safetensors"
    assert weights.stat().st_size < 10 * 2**20
    with safe_open(weights, framework="pt") as file:
        assert {file.get_tensor(name).dtype for name in file.keys()} == {torch.bfloat16}  # noqa: SIM118
    assert json.loads((ADAPTER / "provenance.json").read_text()) and "apache-2.0" in (ADAPTER / "README.md").read_text()
