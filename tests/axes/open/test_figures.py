"""Figures 9 and 10: counts, axes, labels."""

import warnings

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from pipeline.axes.open import figures as figures
from pipeline.axes.open.figures import answer_shares, displayed_labels
from tests.report.conftest import CONDITIONS

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
    figure = figures.prompt_scatter(per_prompt(), NAMES, CONDITIONS, {"a": "x", "b": "y"})
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles == ["soft: 2 of 6 above", "hard: 4 of 4 above", "soft: 0 of 6 above", "hard: 0 of 6 above"]
    support, unique = figure.axes[0], figure.axes[2]
    assert support.get_xscale() == support.get_yscale() == "log" and unique.get_xscale() == "linear"
    assert support.get_xlim() == support.get_ylim() == figure.axes[1].get_ylim()
    points = np.concatenate([collection.get_offsets() for collection in support.collections])
    assert sorted(map(tuple, points.tolist())) == sorted([(5, 9), (5, 5), (5, 2)] * 2)


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
        figure = figures.answer_bars(answers, {"a": "Model A"}, CONDITIONS)
        figure.savefig(tmp_path / "figure.png")
    city, mammal, weekday = figure.axes
    labels = [text.get_text() for text in city.get_yticklabels()]
    assert labels[0] == "$x$ \\frac{" and max(map(len, labels)) <= 24
    widths = sorted(bar.get_width() for bar in city.patches)
    np.testing.assert_allclose(widths, sorted([3 / 7, 2 / 7, 1 / 7, 1 / 7] * 3))
    assert [text.get_text() for text in weekday.texts] == ["not run"] and len(mammal.patches) == 12


def test_shares_sum_over_prompts_of_a_category_and_leave_baselines_out():
    answers = pd.DataFrame(
        [("base", "x", 6), ("base", "y", 2), ("base", "x", 2), ("ssot", "z", 9), ("soft", "y", 4), ("soft", "a", 4)],
        columns=["condition", "answer", "count"],
    )
    assert answer_shares(answers, CONDITIONS) == {"base": {"x": 0.8, "y": 0.2}, "soft": {"a": 0.5, "y": 0.5}}
    assert list(answer_shares(answers, CONDITIONS)["soft"]) == ["a", "y"]
    assert answer_shares(answers[:0], CONDITIONS) == {}


def test_ten_of_each_condition_and_fifteen_in_all():
    base = {f"b{i:02d}": 0.09 - 0.001 * i for i in range(12)}
    soft = {f"s{i:02d}": 0.08 - 0.001 * i for i in range(12)}
    labels = displayed_labels({"base": base, "soft": soft})
    # The 10th of base has .081 and comes before the first of soft at .08; five of soft fill up.
    assert labels == [*list(base)[:10], *list(soft)[:5]]
