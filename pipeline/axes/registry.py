"""All metrics of ``metrics.csv`` by name, which of them are headlines, and splits."""

from pipeline.axes import AXES, axis_modules
from pipeline.axes.metric import Metric

METRICS: dict[str, Metric] = {
    metric.name: metric for module in axis_modules("metrics").values() for metric in module.METRICS
}
"""Every metric by its name, in the order of the page's definitions."""
SPLITS = {name: tuple(axis.splits) for name, axis in AXES.items()}
"""Splits by axis whose headline numbers are reported; "all" is all parts of an axis together."""
SPLIT_TITLES = AXES["structured"].splits
SHORT_SPLIT_TITLES = {"ood": "OOD", "unseen": "unseen"}
HEADLINES = {
    axis: tuple(
        metric.name
        for metric in sorted(METRICS.values(), key=lambda metric: metric.headline)
        if metric.axis == axis and metric.headline
    )
    for axis in AXES
}
"""Headline metrics by axis: those that are committed, compared between seeds and shown on dashboards."""
