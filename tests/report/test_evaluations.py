"""Reading whatever evaluations exist."""

import math

import numpy as np
import pandas as pd
import pytest

from pipeline.errors import ArtifactError
from pipeline.report.evaluations import read_evaluations
from tests.report.conftest import mcq, open_ended, structured


def test_metrics_failures_and_tables(tmp_path, prompts):
    structured(tmp_path, "alpha", "base", 0.5, prompts[0])
    structured(tmp_path, "beta", "ssot", math.nan, prompts[0])
    mcq(tmp_path, "alpha", "base", 0)
    open_ended(tmp_path, "alpha", "soft", 3.0)
    evaluations = read_evaluations(tmp_path)
    assert evaluations.axes == {"structured", "open", "mcq"}
    assert list(evaluations.metrics["axis"].drop_duplicates()) == ["structured", "open", "mcq"]
    assert evaluations.metrics["value"].isna().sum() == 3  # one W1 on two splits, and one TV
    assert evaluations.invalid.iloc[-1].tolist() == ["mcq", "alpha", "base", "mcq", "missing_answer", 100]
    samples = evaluations.samples(["beta", "alpha"], ["base", "ssot"])
    assert list(samples) == ["beta", "alpha"] and samples["alpha"].keys() == {
        ("base", prompt.prompt_id) for prompt in prompts[0]
    }
    np.testing.assert_array_equal(samples["beta"]["ssot", prompts[0][0].prompt_id], [1, 2, 2, 3])
    stacked = evaluations.stacked("open", "answers", ("answer", "count"), ["alpha"], ["base", "soft"])
    assert list(stacked.columns) == ["model", "condition", "answer", "count"] and len(stacked) == 3


def test_several_directories_read_as_one_whatever_their_names(tmp_path, prompts):
    """Order is that of axes and names, so that a report does not depend on how the cells of a sweep are called."""
    for name, model in (("z", "alpha"), ("a", "beta")):
        structured(tmp_path / name, model, "soft", 0.5, prompts[0])
        mcq(tmp_path / name, model, "base", 50)
    roots = [tmp_path / "a", tmp_path / "z"]
    evaluations = read_evaluations(*roots)
    names = [(axis, model) for axis in ("structured", "mcq") for model in ("alpha", "beta")]
    assert [each[:2] for each in evaluations.directories] == names
    assert list(evaluations.provenance) == [str(d / "provenance.json") for d in evaluations.directories.values()]
    pd.testing.assert_frame_equal(evaluations.metrics, read_evaluations(*reversed(roots)).metrics)
    assert evaluations.path("structured", "alpha", "soft", "samples.parquet").is_relative_to(tmp_path / "z")
    assert evaluations.path("structured", "alpha", "soft", "nothing.parquet") is None
    assert evaluations.path("structured", "alpha", "hard", "samples.parquet") is None
    assert set(evaluations.samples(["alpha", "beta"], ["soft"])) == {"alpha", "beta"}


def test_one_evaluation_twice_is_an_error_that_names_both(tmp_path, prompts):
    for name in ("one", "two"):
        structured(tmp_path / name, "alpha", "base", 0.5, prompts[0])
    message = r"one/structured/alpha/base and .*two/structured/alpha/base are both the evaluation structured of alpha"
    with pytest.raises(ArtifactError, match=message):
        read_evaluations(tmp_path / "one", tmp_path / "two")
    # The same directory, named twice, is one.
    assert len(read_evaluations(tmp_path / "one", tmp_path / "one").sources) == 1
