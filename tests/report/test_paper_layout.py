"""The paper's own layout of its tables, of two models by hand."""

import math

from pipeline.report.paper_layout import main
from tests.report.conftest import metric_frame, metric_row


def test_conditions_stand_side_by_side_and_tasks_are_means_over_models(tmp_path, capsys):
    rows = [
        metric_row("retention", model, condition, split, metric, base + change)
        for split, metric in (("tinyMMLU", "gp_irt"), ("all", "gp_irt_paper_mean"), ("all", "gp_irt"))
        for model, base in (("a", 0.5), ("b", 0.7))
        for condition, change in (("base", 0.0), ("hard", -0.1 if model == "a" else math.nan))
    ]
    rows.append(metric_row("structured", "a", "soft", "unseen", "wasserstein_1_normalised", 0.25))
    (tmp_path / "tables").mkdir()
    metric_frame(rows).to_csv(tmp_path / "metrics.csv", index=False)
    main(tmp_path / "metrics.csv")
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["tinyMMLU", "0.600", "—", "—"] in shown
    assert ["a", "0.500", "—", "0.400"] in shown and ["b", "0.700", "—", "—"] in shown
    assert ["a", "—", "0.250", *["—"] * 7] in shown
    written = {path.name for path in (tmp_path / "tables").iterdir()}
    assert written == {f"paper_table{n}.{end}" for n in ("7", "21_models", "21_tasks") for end in ("csv", "tex")}
