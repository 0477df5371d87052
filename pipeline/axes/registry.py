"""All metrics of ``metrics.csv`` by name: which of them are headlines, and where each is computed."""

import ast
from pathlib import Path

from pipeline import PROJECT
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


def metric_sources(name: str) -> list[dict[str, str]]:
    """File, name and first line of the docstring of the function that computes a metric; nothing for an unknown name.

    Read from the file and not imported, because some functions need torch.
    """
    if name not in METRICS:
        return []
    module, _, function = METRICS[name].function.partition(":")
    file = Path(*module.split(".")).with_suffix(".py")
    definition: ast.AST = ast.parse((PROJECT / file).read_text(encoding="utf-8"))
    for part in function.split("."):
        definition = next(node for node in definition.body if getattr(node, "name", "") == part)
    says = (ast.get_docstring(definition) or "").split("\n")[0]
    return [{"file": file.as_posix(), "name": function, "says": says}]
