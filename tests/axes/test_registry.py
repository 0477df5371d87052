"""What the registry says of a metric is complete and true; the stages' tests hold that what is written is in it."""

import dataclasses

import pytest

from pipeline.axes import AXES
from pipeline.axes.metric import Metric
from pipeline.axes.registry import HEADLINES, METRICS, metric_sources
from tests.conftest import ROOT

pytestmark = pytest.mark.slow


def incompleteness(name: str, metric: Metric) -> str:
    """What is wrong with a metric's declaration; empty where nothing is."""
    # What may be left out, and the numbers.
    optional = ("column", "headline", "decimals", "formula_text")
    texts = {field.name: getattr(metric, field.name) for field in dataclasses.fields(metric)}
    checks = {
        "name": metric.name == name,
        "direction": metric.direction in ("lower", "higher", "neither"),
        "definition": metric.definition.endswith(".") and "  " not in metric.definition,
        "braces": "{" not in metric.definition + metric.formula_text,
        "title": not metric.title.endswith("."),
        "decimals": metric.decimals >= 0,
        "axis": metric.axis in AXES,
        **{f"no {key}": bool(text.strip()) for key, text in texts.items() if key not in optional},
    }
    return ", ".join(check for check, holds in checks.items() if not holds)


def test_metrics_are_complete():
    # In loops: there are hundreds, and a test of its own for each takes longer than what it looks at.
    found = {name: incompleteness(name, metric) for name, metric in METRICS.items()}
    assert {name: text for name, text in found.items() if text} == {}


def test_titles_tell_metrics_apart():
    titles = [metric.title for metric in METRICS.values()]
    # The headline support size is also one of the 21 thresholds, under a title of its own.
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
