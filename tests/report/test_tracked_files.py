"""What DVC's metrics and plots commands read."""

import pytest

from pipeline.errors import ArtifactError
from pipeline.report.tracked_files import losses_by_step

METHODS = ("soft", "hard")


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
