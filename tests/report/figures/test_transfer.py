"""Figures 9 and 10 and the support curve: counts, axes, labels."""

import warnings

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from pipeline.report.figures import transfer as transfer_figures

NAMES = {"a": "Model A", "b": "Model B"}


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def per_prompt():
    rows = []
    for model in NAMES:
        for condition, sizes in (("base", (5, 5, 5)), ("soft", (9, 5, 2)), ("hard", (6, 7, np.nan))):
            for number, size in enumerate(sizes):
                rows.append((model, condition, f"p{number}", size, 0.1 * number))
    return pd.DataFrame(rows, columns=["model", "condition", "prompt_id", "top_p_support_size", "unique_fraction"])


def test_scatter_counts_points_strictly_above_the_diagonal():
    figure = transfer_figures.prompt_scatter(per_prompt(), NAMES, {"a": "x", "b": "y"})
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles == ["soft: 2 of 6 above", "hard: 4 of 4 above", "soft: 0 of 6 above", "hard: 0 of 6 above"]
    support, unique = figure.axes[0], figure.axes[2]
    assert support.get_xscale() == support.get_yscale() == "log" and unique.get_xscale() == "linear"
    assert support.get_xlim() == support.get_ylim() == figure.axes[1].get_ylim()
    points = np.concatenate([collection.get_offsets() for collection in support.collections])
    assert sorted(map(tuple, points.tolist())) == sorted([(5, 9), (5, 5), (5, 2)] * 2)


def test_scatter_without_a_method():
    only_base = per_prompt().query("condition == 'base'")
    figure = transfer_figures.prompt_scatter(only_base, NAMES, {"a": "x", "b": "y"})
    assert figure.axes[0].get_title(loc="left") == "soft: 0 of 0 above"


def test_families_have_a_colour_and_models_a_marker():
    looks = transfer_figures.model_markers(["a", "b", "c"], {"a": "x", "b": "x", "c": "y"})
    assert looks["a"][0] == looks["b"][0] != looks["c"][0]
    assert looks["a"][1] != looks["b"][1] and looks["a"][1] == looks["c"][1]


def test_answer_bars_draw_any_unicode_without_warnings(tmp_path):
    answers = pd.DataFrame(
        [
            ("a", c, category, answer, count)
            for c in ("base", "soft", "hard")
            for category in ("city", "mammal")
            for answer, count in (("$x$ \\frac{", 3), ("北京", 2), ("x" * 60, 1), ("🦊 fox", 1))
        ],
        columns=["model", "condition", "category", "answer", "count"],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = transfer_figures.answer_bars(answers, {"a": "Model A"})
        figure.savefig(tmp_path / "figure.png")
    city, mammal, weekday = figure.axes
    labels = [text.get_text() for text in city.get_yticklabels()]
    assert labels[0] == "$x$ \\frac{" and max(map(len, labels)) <= 24
    widths = sorted(bar.get_width() for bar in city.patches)
    np.testing.assert_allclose(widths, sorted([3 / 7, 2 / 7, 1 / 7, 1 / 7] * 3))
    assert [text.get_text() for text in weekday.texts] == ["not run"] and len(mammal.patches) == 12


def test_support_curve_is_the_median_over_prompts():
    support = pd.DataFrame(
        [
            ("a", "base", f"p{number}", level, size + 10 * (level > 0.8))
            for level in (0.5, 0.9, 0.999)
            for number, size in enumerate((1, 2, 30))
        ],
        columns=["model", "condition", "prompt_id", "threshold", "support_size"],
    )
    figure = transfer_figures.support_curve(support, {"a": "Model A"})
    line = figure.axes[0].lines[0]
    assert list(line.get_xdata()) == [0.5, 0.9, 0.999] and list(line.get_ydata()) == [2, 12, 12]
