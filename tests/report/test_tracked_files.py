"""What DVC's metrics and plots commands read."""

import math

import pytest

from pipeline.errors import ArtifactError
from pipeline.report.tracked_files import (
    headline_numbers,
    losses_by_step,
)
from tests.report.conftest import metric_frame, metric_row

METHODS = ("soft", "hard")


def rows():
    names = ("structured", "m", "soft", "ood")
    return [
        metric_row(*names, "wasserstein_1_normalised", 0.25),
        metric_row(*names, "valid_rate", 0.5),
        metric_row(*names, "exact_support_rate", 0.0),
        {**metric_row(*names, "wasserstein_1_normalised", 0.75), "family": "poisson"},
        metric_row("retention", "m", "base", "all", "gp_irt", 0.4),
        metric_row("retention", "m", "base", "tinyMMLU", "gp_irt", 0.9),
        metric_row("mcq", "m", "base", "mcq", "mcq_parse_rate", math.nan),
    ]


def test_headline_numbers_are_one_of_each_of_the_first_axes_and_undefined_is_null():
    further = metric_row("paloma", "m", "base", "all", "bits_per_byte", 2.5)
    assert headline_numbers(metric_frame([*rows(), further])) == {
        "m": {"soft": {"wasserstein_1_normalised": 0.25}, "base": {"mcq_parse_rate": None, "gp_irt": 0.4}}
    }


def test_losses_of_both_methods_by_step(tmp_path):
    assert losses_by_step([tmp_path], "m", METHODS) is None
    for method, size in (("soft", 3), ("hard", 1)):
        path = tmp_path / "m" / method / "train_log.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text("".join(f'{{"step": {step}, "loss": {1 / step}}}\n' for step in range(1, size + 1)))
    table = losses_by_step([tmp_path], "m", METHODS)
    assert list(table.columns) == ["step", "soft", "hard"] and table["step"].tolist() == [1, 2, 3]
    assert table["soft"].tolist() == pytest.approx([1, 1 / 2, 1 / 3]) and table["hard"].isna().tolist() == [0, 1, 1]
    with pytest.raises(ArtifactError, match="are both the training of m soft"):
        losses_by_step([tmp_path, tmp_path / "m" / ".."], "m", METHODS)
    path.write_text('{"step": 1}\n')
    with pytest.raises(ArtifactError, match="no field 'loss'"):
        losses_by_step([tmp_path], "m", METHODS)
