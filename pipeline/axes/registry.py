"""All metrics of ``metrics.csv`` by name: which of them are headlines, and where each is computed."""

import ast
from pathlib import Path

from pipeline.axes.credal.metrics import METRICS as CREDAL
from pipeline.axes.human.metrics import METRICS as HUMAN
from pipeline.axes.inv_entropy.metrics import METRICS as INV_ENTROPY
from pipeline.axes.selfreflect.metrics import METRICS as SELFREFLECT
from pipeline.axes.semcal.metrics import METRICS as SEMCAL
from pipeline.axes.uncertainty.metrics import METRICS as UNCERTAINTY
from pipeline.config.evaluation import AXES
from pipeline.metrics.exact import EXACT
from pipeline.metrics.language import LANGUAGE
from pipeline.metrics.laws import LAWS
from pipeline.metrics.metric import Metric
from pipeline.metrics.retention import RETENTION
from pipeline.metrics.structured import STRUCTURED

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        *(*STRUCTURED, *EXACT, *LANGUAGE, *RETENTION, *LAWS),
        *(*HUMAN, *SEMCAL, *CREDAL, *UNCERTAINTY, *INV_ENTROPY, *SELFREFLECT),
    )
}
"""Every metric by its name, in the order of the page's definitions."""
AXIS_TITLES = {
    "structured": "Structured sampling",
    "open": "Open-ended generation",
    "mcq": "Multiple-choice questions",
    "novelty": "NoveltyBench",
    "retention": "Retention: TinyBenchmarks",
    "paloma": "Retention: PALOMA",
    "anchors": "Divergence from the base checkpoint",
    "laws": "Laws of one's own",
    "human": "Agreement with people",
    "semcal": "Semantic calibration",
    "credal": "Sets of laws",
    "uncertainty": "Uncertainty, people's and the model's",
    "inv_entropy": "Inv-Entropy of perturbed questions",
    "selfreflect": "Summaries of a model's answers",
}
SPLITS = {
    "structured": ("ood", "unseen"),
    "open": ("open",),
    "mcq": ("mcq",),
    "novelty": ("all",),
    "retention": ("all",),
    "paloma": ("all",),
    "anchors": ("all",),
    "laws": ("held_out_template", "held_out_field"),
    "human": ("all",),
    "semcal": ("all",),
    "credal": ("all",),
    "uncertainty": ("all",),
    "inv_entropy": ("all",),
    "selfreflect": ("all",),
}
"""Splits by axis whose headline numbers are reported; "all" is all parts of an axis together."""
SPLIT_TITLES = {"ood": "held-out families", "unseen": "unseen parameters"}
LAW_SPLIT_TITLES = {
    "held_out_template": "held-out templates",
    "held_out_field": "held-out values",
    "seen_template": "what was trained on",
}
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
PROJECT = Path(__file__).parents[2]


def metric_sources(name: str) -> list[dict[str, str]]:
    """Where a metric is computed, read from the file and not imported, because some functions need torch.

    Args:
        name: A metric's name.

    Returns:
        File, name and first line of the docstring of the function; nothing for a name that is no metric's.
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
