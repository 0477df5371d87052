"""What the registry says of a metric is complete and true; the stages' tests hold that what is written is in it."""

import dataclasses

import pytest

from pipeline.axes import AXES
from pipeline.axes.registry import HEADLINES, METRICS, metric_sources
from tests.conftest import ROOT

pytestmark = pytest.mark.slow


def test_metrics_are_complete():
    for name, metric in METRICS.items():
        texts = dataclasses.asdict(metric)
        optional = ("column", "headline", "decimals", "formula_text")
        assert all(str(text).strip() for key, text in texts.items() if key not in optional), name
        assert metric.axis in AXES and metric.direction in ("lower", "higher", "neither"), name
        assert metric.definition.endswith(".") and "{" not in metric.definition + metric.formula_text, name


def test_titles_tell_metrics_apart():
    titles = [metric.title for metric in METRICS.values()]
    assert len(set(titles)) == len(titles)


def test_a_metric_is_computed_where_it_says():
    for name, metric in METRICS.items():
        (source,) = metric_sources(name)
        assert source["file"].startswith(("pipeline/core/", "pipeline/axes/")) and (ROOT / source["file"]).exists(), (
            name
        )
        assert source["says"].strip() and source["name"] == metric.function.partition(":")[2], name


def test_every_axis_has_headlines_in_an_order_of_their_own():
    for axis, names in HEADLINES.items():
        assert [METRICS[name].headline for name in names] == list(range(1, len(names) + 1)), axis
    assert HEADLINES["structured"] == (
        "wasserstein_1_normalised",
        "pit_wasserstein_1_all_answers",
        "logit_kl_nats",
        "valid_rate",
    )
