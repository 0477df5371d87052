"""Figures of structured sampling: hatching, missing bars, conditions, which models are shown."""

import math

import pytest
from matplotlib import pyplot as plt

from pipeline.axes.structured.figures import overlay_models, ssot_model, structured_bars, structured_drawings
from pipeline.config.params import load_params
from pipeline.core.prompts.structured import build_split
from pipeline.report.evaluations import ReportContext, read_evaluations
from tests.report.conftest import CONDITIONS, metric_frame, sampled
from tests.report.conftest import structured as write_structured

NAMES = {"a": "Model A", "b": "Model B"}


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def test_bars_are_hatched_where_undefined_and_absent_where_not_run():
    values = {("a", "base"): 0.5, ("a", "soft"): 0.1, ("a", "hard"): 0.2, ("b", "base"): math.nan, ("b", "soft"): 0.3}
    figure = structured_bars(metric_frame(sampled({**values, ("a", "ssot"): 0.05})), NAMES, CONDITIONS)
    for axis in figure.axes:
        bars = list(axis.patches)
        assert [bar.get_hatch() for bar in bars].count("////") == 1 and len(bars) == 5
        heights = sorted(bar.get_height() for bar in bars if not bar.get_hatch())
        assert heights == [0.1, 0.2, 0.3, 0.5]
        # The line of the perfect sampler is that of base, soft and hard; ssot has another.
        assert axis.lines[-1].get_ydata()[0] == pytest.approx(0.02)
        whiskers = sorted(list(line.get_ydata()) for line in axis.lines[:-1])
        assert whiskers == [pytest.approx([value - 0.01, value + 0.01]) for value in heights]


def test_overlay_models_take_the_best_of_each_tokenizer():
    tokenizers = {"a": "x", "b": "x", "c": "y"}
    values = {("a", "soft"): 0.3, ("b", "soft"): 0.15, ("c", "hard"): 0.2, ("a", "ssot"): 0.01, ("d", "soft"): 0.1}
    metrics = metric_frame(sampled(values))
    assert overlay_models(tokenizers, CONDITIONS, metrics) == ["b", "c"]


def test_the_ssot_overlay_is_of_the_papers_model_where_it_was_asked():
    metrics = metric_frame(sampled({("a", "ssot"): math.nan, ("b", "ssot"): 0.3, ("c", "soft"): 0.1}))
    assert ssot_model(["a", "b", "c"], metrics) == "a"  # the first, whatever its W1
    assert ssot_model(["c", "b"], metrics) == "b"
    assert ssot_model(["c"], metrics) is None
    asked = metric_frame(sampled({("a", "ssot"): 0.1, ("gpt_oss_20b", "ssot"): 0.3}))
    assert ssot_model(["a", "gpt_oss_20b"], asked) == "gpt_oss_20b"


def test_figure_8_has_four_of_the_laws_of_figure_3(tmp_path, two_models):
    prompts = build_split("ood", selection="selected")
    for condition in ("base", "soft", "ssot"):
        write_structured(tmp_path, "alpha", condition, 0.1, prompts)
    config, evaluations = load_params(two_models), read_evaluations(tmp_path)
    drawings = structured_drawings(ReportContext(config, evaluations, prompts))
    main, compared = (drawings[name] for name in ("figure3", "figure8"))
    own, of_main = ([prompt.prompt_id for prompt in drawing.arguments[0]] for drawing in (compared, main))
    assert len(own) == 4 and set(own) < set(of_main) and len(of_main) == 6
    assert "Alpha_1B (the paper's is of GPT-OSS-20B)" in compared.caption
    figure = compared.function(*compared.arguments)
    assert [axis.axison for axis in figure.axes] == [True] * 4
    # Families of one's own: those of Figure 3.
    few = [prompt for prompt in prompts if prompt.family in ("maxwell", "chi")]
    drawings = structured_drawings(ReportContext(config, evaluations, few))
    assert [prompt.family for prompt in drawings["figure8"].arguments[0]] == ["maxwell", "chi"]
