"""Tables of what is kept: means over the same models, and tests against base."""

import numpy as np
import pytest
from matplotlib import pyplot as plt

from pipeline.config.params import load_params
from pipeline.report.retention import retention_summary, split_points
from tests.report.conftest import CONDITIONS, context_of, metric_frame, metric_row, texts


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
