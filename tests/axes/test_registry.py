"""What the registry says of a metric is complete and true; the stages' tests hold that what is written is in it."""

import dataclasses
import pkgutil

import pytest

from pipeline.axes import AXES
from pipeline.axes.registry import METRICS

pytestmark = pytest.mark.slow


def test_metrics_are_complete_and_computed_where_they_say():
    for name, metric in METRICS.items():
        texts = dataclasses.asdict(metric)
        optional = ("column", "headline", "decimals", "formula_text")
        assert all(str(text).strip() for key, text in texts.items() if key not in optional), name
        assert metric.axis in AXES and metric.definition.endswith("."), name
        assert callable(pkgutil.resolve_name(metric.function)), name
    assert len({metric.title for metric in METRICS.values()}) == len(METRICS)
