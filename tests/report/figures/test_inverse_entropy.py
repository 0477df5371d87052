"""The figure of Inv-Entropy by temperature, on questions made by hand."""

import pandas as pd
import pytest
from matplotlib import pyplot as plt

from pipeline.config.params import load_params
from pipeline.report.evaluations import read_evaluations
from pipeline.report.figures.drawing import COLORS, TARGET_COLOR
from pipeline.report.figures.inverse_entropy import MEASURE, inverse_entropy_drawings
from tests.report.conftest import metric_row, write_fabricated


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def evaluated(root, condition, temperatures, *values):
    """An evaluation of the model alpha whose i-th question has ``values[i]`` at the temperatures; None has none."""
    rows = [
        {"prompt_id": f"q{place}", "temperature": temperature, MEASURE: value}
        for place, own in enumerate(values)
        for temperature, value in zip(temperatures, own, strict=True)
    ]
    metrics = [metric_row("inv_entropy", "alpha", condition, "all", MEASURE, 0.1)]
    write_fabricated(root, metrics, per_prompt=pd.DataFrame(rows).astype({"temperature": float}))


def drawn(params, root):
    return inverse_entropy_drawings(load_params(params), read_evaluations(root))


def test_questions_that_rise_at_every_step_are_solid_and_counted(two_models, tmp_path):
    # The fourth setting differs in more than the temperature.
    evaluated(tmp_path, "base", (1.4, 0.3, 0.7, None), (0.5, 0.1, 0.2, 9.0), (0.2, 0.3, 0.4, 9.0))
    evaluated(tmp_path, "soft", (0.3, 0.7, 1.4), (0.1, 0.2, 0.5), (0.0, 0.0, 0.2), (0.1, 0.3, 0.4))
    drawing = drawn(two_models, tmp_path)["inv_entropy_temperature"]
    assert "rises on 17% of questions" in drawing.caption
    base, soft, hard = drawing.function(*drawing.arguments).axes
    titles = [panel.get_title(loc="left").splitlines()[1] for panel in (base, soft, hard)]
    assert titles == ["TSU 1 of 2", "TSU 2 of 3", "not run"] and not hard.lines
    lines = {(line.get_color(), line.get_linestyle()): line for line in base.lines}
    assert len(lines) == len(base.lines) == 3
    assert lines[COLORS["base"], ":"].get_ydata().tolist() == [0.3, 0.4, 0.2]
    assert lines[COLORS["base"], "-"].get_ydata().tolist() == [0.1, 0.2, 0.5]
    assert lines[TARGET_COLOR, "-"].get_xdata().tolist() == [0.3, 0.7, 1.4]
    assert lines[TARGET_COLOR, "-"].get_ydata().tolist() == pytest.approx([0.2, 0.3, 0.35])


def test_one_temperature_has_no_figure(two_models, tmp_path):
    evaluated(tmp_path, "base", (0.7, None), (0.1, 0.2))
    assert drawn(two_models, tmp_path) == {}


def test_evaluations_of_before_have_no_figure(two_models, tmp_path):
    evaluated(tmp_path, "base", (0.3, 0.7), (0.1, 0.2))
    path = tmp_path / "inv_entropy" / "alpha" / "base" / "per_prompt.parquet"
    pd.read_parquet(path).drop(columns="temperature").to_parquet(path)
    assert drawn(two_models, tmp_path) == {}
