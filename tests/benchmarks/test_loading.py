"""The benchmark of loading adds up what processes held at the same moment; its figures are not checked."""

import pytest
import torch

from benchmarks import loading
from pipeline.engines.loading.model import load_model


def test_memory_of_processes_is_added_at_equal_moments():
    # Private 100 and 200 at the start; 150 more, given back before the other one takes 120.
    first = [(1.0, 100.0, 10.0), (2.0, 250.0, 90.0), (3.0, 130.0, 90.0), (6.0, 130.0, 20.0)]
    second = [(1.5, 200.0, 10.0), (4.0, 320.0, 70.0), (5.0, 240.0, 15.0)]
    assert loading.combined([first, second]) == {
        "seconds": 5.0,
        "private_mb": 150.0,
        "after_mb": 70.0,
        "mapped_mb": 80.0,
    }


@pytest.mark.parametrize("case", loading.CASES)
def test_checkpoints_of_all_cases_load(tmp_path, case):
    loading.write_checkpoint(case, tmp_path, loading.SMALL)
    model = load_model(loading.model_config(case, tmp_path), device="cpu")
    assert {value.dtype for value in model.parameters()} == {getattr(torch, case.replace("mxfp4", "bfloat16"))}
