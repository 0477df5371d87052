"""What the registry says of a metric is complete and true; the stages' tests hold that what is written is in it."""

import pkgutil

import pytest

from pipeline.axes import AXES
from pipeline.axes.registry import METRICS

pytestmark = pytest.mark.slow


def test_metrics_are_complete_and_computed_where_they_say():
    for name, metric in METRICS.items():
        assert metric.axis in AXES, name
        assert callable(pkgutil.resolve_name(metric.function)), name
    assert len({metric.title for metric in METRICS.values()}) == len(METRICS)
