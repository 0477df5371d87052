"""Tables of what is kept: means over the same models, and tests against base."""

import math

import numpy as np
import pytest
from matplotlib import pyplot as plt

from pipeline.config.params import load_params
from pipeline.report.evaluations import ReportContext, read_evaluations
from pipeline.report.retention import retention_summary, split_points, verdict_table
from tests.report.conftest import CONDITIONS, context_of, metric_frame, metric_row, paired_rows, texts, write_fabricated


@pytest.fixture(scope="module")
def config(two_models):
    return load_params(two_models)


def scored(axis, metric, values):
    """Rows for {(model, condition, split): value}."""
    return [metric_row(axis, *names, metric, value) for names, value in values.items()]


def test_summary_has_both_axes_and_the_variants_of_text_that_there_are(config):
    rows = scored("retention", "gp_irt", {("alpha", "base", "all"): 0.5, ("alpha", "soft", "all"): 0.4})
    rows += scored("paloma", "perplexity_without_bos", {("alpha", "base", "all"): 9.0})
    table = retention_summary(context_of(config, rows))
    assert table.header[2:] == ["gp-IRT", "gp-IRT difference", "Perplexity without BOS"]
    assert "GSM8K counted once" in table.note
    assert [cell[:5] for cell in texts(table)["Alpha_1B", "base"]] == ["0.500", "—", "9.00 "]
    assert texts(table)["Alpha_1B", "soft"][2] == "not run"
    assert retention_summary(context_of(config, [])) is None


def test_tests_give_difference_interval_p_values_and_verdict_with_its_n(config, tmp_path):
    rows = [metric_row("retention", "beta", "soft", split, "accuracy", 0.5, n=80) for split in ("tinyMMLU", "other")]
    tests = paired_rows(
        [
            ("tinyMMLU", "accuracy", -0.06, 0.05, 0.0004, "worse"),
            ("tinyTruthfulQA", "accuracy", 0.01, 0.05, math.nan, "cannot tell"),
        ]
    )
    write_fabricated(tmp_path, rows, tests=tests)
    context = ReportContext(config, read_evaluations(tmp_path), [])
    table = verdict_table(context)
    shown = [dict(zip(table.header, row, strict=True)) for row in table.rows]
    assert shown[0] == {
        **{"Model": "Beta 2B", "Condition": "soft", "Task": "tinyMMLU", "Metric": "Accuracy", "n": "80"},
        **{"Difference": "-0.060", "95% interval": "[-0.080, -0.040]", "Margin": "0.05"},
        **{"Adjusted p": "<0.001", "Verdict": "worse"},
    }
    assert [shown[1][title] for title in ("n", "Adjusted p")] == ["—", "—"]
    assert table.frame.loc[0, "p_difference"] == 0.0002


def test_points_of_the_figure_have_the_values_and_lines_the_intervals():
    rows = [
        metric_row("retention", model, condition, split, "gp_irt", 0.5 + 0.1 * place + 0.01 * rank, width=0.05)
        for model in ("b", "a")
        for rank, condition in enumerate(CONDITIONS)
        for place, split in enumerate(("tinyMMLU", "tiny $x_$", "all"))
    ]
    names = {"a": "Model A", "none": "Not run", "b": "Model B"}
    figure = split_points(metric_frame(rows), names, CONDITIONS, "gp_irt", "gp-IRT")
    assert [panel.get_title(loc="left") for panel in figure.axes] == ["Model A", "Model B"]
    panel = figure.axes[0]
    for rank, condition in enumerate(CONDITIONS):
        line = next(line for line in panel.lines if line.get_label() == condition)
        values = [0.5 + 0.01 * rank, 0.6 + 0.01 * rank]
        np.testing.assert_allclose(line.get_ydata(), values)
        ends = [segment[:, 1] for segment in panel.collections[rank].get_segments()]
        np.testing.assert_allclose(ends, [[value - 0.05, value + 0.05] for value in values])
    plt.close(figure)
