"""The method to choose, and why, in words."""

from collections import Counter
from collections.abc import Mapping

import pandas as pd

from pipeline.axes.registry import METRICS, SPLIT_TITLES
from pipeline.core.statistics.frontier import Choice
from pipeline.report.evaluations import rows_of
from pipeline.report.page.aggregates import W1, Aggregates
from pipeline.report.tables.table import Measure, interval_text, signed_text

Choices = Mapping[str, tuple[Choice, Measure | None]]
"""By model, the method to choose, and the cost that it was chosen by."""
RULE = (
    "Rule: of the methods that are not shown to be worse calibrated than another on either split, the one that moved "
    "least from base."
)


def compared_methods(choice: Choice) -> list[str]:
    """All methods that were weighed."""
    return [*choice.candidates, *choice.worse]


def choice_word(choices: Choices) -> str:
    """The method to choose, counted over models where they differ; empty where there was no choice."""
    counts = Counter(choice.method for choice, _ in choices.values())
    named = [(method, count) for method, count in counts.most_common() if method]
    if not named:
        return "No method can be named." if choices else ""
    if len(choices) == 1 or (len(named) == 1 and not counts[""]):
        return f"To choose: {named[0][0]}."
    return f"To choose: {', '.join(f'{method} ({count} of {len(choices)} models)' for method, count in named)}."


def chosen_by_model(rows: Aggregates, choices: Choices) -> str:
    """The models by their method."""
    members: dict[str, list[str]] = {}
    for model, (choice, _) in choices.items():
        members.setdefault(choice.method or "none", []).append(rows.models[model])
    return "; ".join(f"{method} for {', '.join(names)}" for method, names in members.items())


def choice_sentences(
    rows: Aggregates,
    model: str,
    choice: Choice,
    measure: Measure | None,
    comparisons: pd.DataFrame | None,
    at_equal_calibration: pd.DataFrame | None,
) -> list[str]:
    """Why a method is the one to choose for a model, or why none can be named."""
    sentences = []
    if choice.method and measure is not None:
        found = [
            (name, rows.get(measure.axis, measure.split, measure.metric, model, name)) for name in choice.candidates
        ]
        decimals, unit = METRICS[measure.metric].decimals, METRICS[measure.metric].unit
        values = (
            f"{name} {row.value:.{decimals}f} {interval_text(row.ci_low, row.ci_high, decimals, '')}"
            for name, row in found
        )
        sentences.append(f"{RULE} {METRICS[measure.metric].title}, {unit}: {', '.join(values)}.")
    elif choice.candidates:
        listed = ", ".join(choice.candidates)
        sentences.append(f"{RULE} Neither divergence nor bits per byte was measured under all of {listed}.")
    else:
        sentences.append(f"{RULE} Each is shown to be worse than another on some split.")
    if choice.worse:
        reasons = ", ".join(_reason(name, *why) for name, why in choice.worse.items())
        sentences.append(f"Left out as worse calibrated: {reasons}.")
    if choice.method and comparisons is not None:
        tested = rows_of(comparisons, model=model, metric=W1, condition=choice.method, against="base")
        if len(tested) and not (tested["verdict"] == "better").any():
            sentences.append(f"No test shows {choice.method} to be closer to the target than base.")
    if choice.method and measure is not None and at_equal_calibration is not None:
        chosen = rows_of(at_equal_calibration, model=model, metric=measure.metric, condition=choice.method)
        sentences += [
            f"At equal calibration, against mixtures of {row.reference}: {choice.method} {row.verdict} "
            f"({signed_text(row.difference, decimals)} {interval_text(row.ci_low, row.ci_high, decimals)})."
            for row in chosen.itertuples()
        ]
    return sentences


def _reason(method: str, split: str, other: str, tested: bool) -> str:
    where = SPLIT_TITLES[split]
    if not other:
        return f"{method} (undefined on {where})"
    return f"{method} (than {other} on {where}{'' if tested else ', by their intervals, without a test'})"
