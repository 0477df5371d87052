"""Views of the metrics table: bold best, undefined cells, escaping, hatching."""

import math

import pandas as pd
import pytest

from pipeline.artifacts import METRIC_COLUMNS
from pipeline.report import figures, tables
from pipeline.stages.report import headline, overlay_models


def metrics(values):
    """Rows for {(model, condition): W1}; NaN is undefined."""
    rows = []
    for (model, condition), value in values.items():
        for split in ("ood", "unseen"):
            base = {"axis": "structured", "model": model, "condition": condition, "split": split, "family": ""}
            rows.append({**base, "metric": "wasserstein_1_normalised", "value": value, "n": 900, "ci_low": value - 0.01,
                         "ci_high": value + 0.01, "floor": 0.02, "undefined": 2 if math.isnan(value) else 0,
                         "provenance": f"{model}/{condition}/provenance.json"})  # fmt: skip
            rows.append({**base, "metric": "logit_kl_nats", "value": 1.5, "n": 6, "ci_low": 1.0, "ci_high": 2.0,
                         "floor": math.nan, "undefined": 0, "provenance": "p"})  # fmt: skip
            rows.append({**base, "metric": "valid_rate", "value": 0.5, "n": 1000, "ci_low": 0.4, "ci_high": 0.6,
                         "floor": math.nan, "undefined": 0, "provenance": "p"})  # fmt: skip
    return pd.DataFrame(rows, columns=[*METRIC_COLUMNS, "undefined"])


NAMES = {"a": "Model_A", "b": "Model B"}
VALUES = {("a", "base"): 0.5, ("a", "soft"): 0.1, ("a", "hard"): 0.2, ("b", "base"): math.nan, ("b", "soft"): 0.3}


@pytest.fixture
def table():
    return tables.structured_table("table6", "Table 6. 100% & more", metrics(VALUES), "ood", NAMES)


def test_best_undefined_and_missing_cells(table):
    markdown = tables.to_markdown(table)
    first, second = (
        line for line in markdown.splitlines() if line.startswith("| Model_A") or line.startswith("| Model B")
    )
    assert first.split("|")[2:5] == [
        " 0.5000 [0.4900, 0.5100] ",
        " **0.1000** [0.0900, 0.1100] ",
        " 0.2000 [0.1900, 0.2100] ",
    ]
    assert second.split("|")[2:5] == [" — (2 families undefined) ", " **0.3000** [0.2900, 0.3100] ", " not run "]
    assert table.missing == ["b hard"]
    assert "Not run: b hard." in markdown and "perfect sampler scores 0.0200" in markdown


def test_latex(table):
    latex = tables.to_latex(table)
    assert r"Model\_A & 0.5000 & \textbf{0.1000} & 0.2000" in latex
    assert r"Model B & --- & \textbf{0.3000} & ---" in latex
    assert r"100\% \& more" in latex
    assert latex.count("&") - latex.count(r"\&") == 9 * 4 - 6  # four rows of nine columns, the group row of three


def test_csv_tells_undefined_from_not_run(table):
    frame = tables.to_frame(table).set_index(["model", "condition", "metric"])
    assert frame.loc[("b", "base", "wasserstein_1_normalised"), "status"] == "undefined"
    assert frame.loc[("b", "hard", "wasserstein_1_normalised"), "status"] == "not run"
    assert frame.loc[("a", "soft", "wasserstein_1_normalised"), "value"] == 0.1


def test_bars_are_hatched_where_undefined_and_absent_where_not_run():
    figure = figures.structured_bars(metrics(VALUES), NAMES)
    for axis in figure.axes:
        bars = [patch for patch in axis.patches]
        assert len(bars) == 5
        assert [bar.get_hatch() for bar in bars].count("////") == 1
        heights = sorted(bar.get_height() for bar in bars if not bar.get_hatch())
        assert heights == [0.1, 0.2, 0.3, 0.5]


def test_headline():
    text = headline(metrics(VALUES))
    assert text.startswith("On held-out families, normalised W1 is base 0.500, soft 0.200, hard 0.200;")


def test_overlay_models_take_the_best_of_each_tokenizer():
    from types import SimpleNamespace

    models = {
        name: SimpleNamespace(tokenizer=t, display_name=name.upper())
        for name, t in (("a", "x"), ("b", "x"), ("c", "y"))
    }
    values = {("a", "soft"): 0.3, ("b", "soft"): 0.1, ("c", "hard"): 0.2}
    assert overlay_models(SimpleNamespace(models=models), metrics(values)) == {"b": "B", "c": "C"}
