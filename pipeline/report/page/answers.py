"""The page's first screen in words: is the model calibrated, does it carry over to language, and what did it cost?"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from pipeline.core.statistics.condition_tests import method_pairs
from pipeline.core.statistics.frontier import Choice
from pipeline.metrics.registry import METRICS, SPLIT_TITLES, SPLITS
from pipeline.report.evaluations import methods_of, rows_of
from pipeline.report.tables.retention_lists import VERDICTS, primary_counts, verdict_sentence
from pipeline.report.tables.table import Measure, interval_text, probability_text, signed_text

W1 = "wasserstein_1_normalised"
ALL_ANSWERS = "pit_wasserstein_1_all_answers"
COST_AXES = ("retention", "paloma")
"""Axes whose tests against base say what was lost."""
SECONDARY_SPLITS = ("curated", "wildchat")
"""Splits of NoveltyBench; the primary question is of all its prompts together."""
NO_INFERENCE = {
    False: "One model: there is no inference over models.",
    True: "There is no inference over models: fewer than two were evaluated under both conditions.",
}
"""By whether there are several models."""


Choices = Mapping[str, tuple[Choice, Measure | None]]
"""By model, the method to choose, and the cost that it was chosen by."""
_RULE = (
    "Rule: of the methods that are not shown to be worse calibrated than another on either split, the one that moved "
    "least from base."
)


@dataclass(frozen=True)
class Answer:
    """A question, its short answer, and the sentences behind it."""

    question: str
    short: str
    sentences: Sequence[str]


class Aggregates:
    """The aggregate rows of the metrics table by axis, split, metric, model and condition."""

    def __init__(self, metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]):
        """Keep the rows over all families.

        Args:
            metrics: The tidy metrics table.
            models: Model name -> display name, of those that are spoken of.
            conditions: Base and the methods, in order.
        """
        rows = rows_of(metrics, family="").itertuples()
        self.models, self.conditions, self.methods = models, conditions, methods_of(conditions)
        self._rows = {(row.axis, row.split, row.metric, row.model, row.condition): row for row in rows}

    def get(self, axis: str, split: str, metric: str, model: str, condition: str):
        """The row, or None where it does not exist."""
        return self._rows.get((axis, split, metric, model, condition))

    def defined(self, axis: str, split: str, metric: str, condition: str) -> list:
        """The rows of a condition with a finite value, in the order of the models."""
        rows = (self.get(axis, split, metric, model, condition) for model in self.models)
        return [row for row in rows if row is not None and math.isfinite(row.value)]

    def sizes(self, axis: str, metric: str) -> list[int]:
        """Sample sizes of a metric in the parts of an axis (tasks, slices), all parts together left out."""
        return [int(row.n) for key, row in self._rows.items() if (key[0], key[2]) == (axis, metric) and key[1] != "all"]


Calibrated = Literal["calibrated", "not calibrated", "cannot tell"]


def calibration_verdict(row, margin: float) -> Calibrated:
    """Whether W1 is shown to be that of a perfect sampler of as many answers, up to a margin.

    One-sided non-inferiority: the upper end of the 95% interval is at most the perfect sampler's W1 plus the margin,
    which is a test at level 2.5%. An interval that merely reaches down to the perfect sampler's shows nothing.
    "not calibrated": the whole interval lies above.
    """
    bound = row.floor + margin
    if row.ci_high <= bound:
        return "calibrated"
    return "not calibrated" if row.ci_low > bound else "cannot tell"


def calibration_answer(
    rows: Aggregates,
    margin: float,
    comparisons: pd.DataFrame | None = None,
    over_models: pd.DataFrame | None = None,
) -> Answer:
    """Is the model calibrated?

    Args:
        rows: Aggregate rows.
        margin: By how much W1 may exceed a perfect sampler's.
        comparisons: Paired tests between conditions, columns metric, condition, against and verdict.
        over_models: Tests over models, see ``pipeline.report.tables.model_tests``.
    """
    question = "Are the models calibrated?" if len(rows.models) > 1 else "Is the model calibrated?"
    sentences, found = [], []
    for split, name in SPLIT_TITLES.items():
        parts = []
        for condition in rows.conditions:
            members = rows.defined("structured", split, W1, condition)
            if not members:
                continue
            parts.append(_distance(condition, members, len(rows.models), margin))
            if condition in rows.methods:
                found += [calibration_verdict(row, margin) for row in members]
        if parts:
            sentences.append(f"On {name}, normalised W1 is {'; '.join(parts)}.")
    if not sentences:
        return Answer(question, "Not known: no structured evaluation has been run.", [])
    first, *others = over_models_sentences(rows, over_models, [("structured", W1)], SPLIT_TITLES)
    sentences += [*others, *_comparison_sentences(comparisons, rows.conditions)]
    rates = medians_by_condition(rows, "structured", "ood", "valid_rate", ".1%")
    if rates:
        sentences.append(f"Valid answers on held-out families: {rates}. W1 leaves the others out.")
    scores = medians_by_condition(rows, "structured", "ood", ALL_ANSWERS, ".3f")
    if scores:
        sentences.append(f"With those counted, as 1 each, W1 on the probability scale is {scores}.")
    return Answer(question, f"{first} {_calibration_word(found, margin, comparisons, rows.methods)}", sentences)


def over_models_sentences(
    rows: Aggregates,
    tests: pd.DataFrame | None,
    metrics: Sequence[tuple[str, str]],
    splits: Mapping[str, str],
) -> list[str]:
    """What the tests over models say, a sentence per metric and split; of one model that nothing follows for others.

    Args:
        rows: Aggregate rows; says how many models there are.
        tests: Columns axis, split, metric, condition, against, difference, ci_low, ci_high, models, better, p_adjusted
            and verdict; None where there are none.
        metrics: Axis and metric of the tests wanted, in order.
        splits: Split -> its name in a sentence, in order; other splits are left out.
    """
    if len(rows.models) < 2 or tests is None:
        return [NO_INFERENCE[len(rows.models) > 1]]
    sentences = []
    for axis, metric in metrics:
        for split, name in splits.items():
            chosen = rows_of(tests, axis=axis, metric=metric, split=split)
            if chosen.empty:
                continue
            parts = [
                f"{_pair_text(row)}, better in {row.better} of {row.models}, p {_compared(row.p_adjusted)})"
                for row in chosen.itertuples()
            ]
            where = f" on {name}" if name else ""
            models = f"{chosen['models'].max()} models"
            sentences.append(f"Over {models}, {METRICS[metric].title}{where}: {'; '.join(parts)}.")
    return sentences or [NO_INFERENCE[True]]


def _pair_text(row) -> str:
    """A pair, its verdict, difference and interval; the parenthesis is left open."""
    decimals = METRICS[row.metric].decimals
    interval = f"{row.difference:+.{decimals}f} [{row.ci_low:+.{decimals}f}, {row.ci_high:+.{decimals}f}]"
    return f"{row.condition} against {row.against} {row.verdict} ({interval}"


def _compared(p: float) -> str:
    text = probability_text(p)
    return text if text.startswith("<") else f"= {text}"


def _comparison_sentences(comparisons: pd.DataFrame | None, conditions: Sequence[str]) -> list[str]:
    """What the paired tests of W1 say of base and the methods, counted over models and splits."""
    parts = [] if comparisons is None else _pair_counts(rows_of(comparisons, metric=W1), conditions)
    return [f"Paired tests of W1 on the same prompts, one per model and split: {'; '.join(parts)}."] if parts else []


def _pair_counts(tests: pd.DataFrame, conditions: Sequence[str]) -> list[str]:
    """The verdicts of each pair of base and methods, counted."""
    parts = []
    for own, other in method_pairs(conditions):
        chosen = rows_of(tests, condition=own, against=other)
        counts = ", ".join(f"{count} {verdict}" for verdict, count in chosen["verdict"].value_counts().items())
        if counts:
            parts.append(f"{own} against {other} {counts}")
    return parts


def _calibration_word(
    found: Sequence[Calibrated], margin: float, comparisons: pd.DataFrame | None, methods: Sequence[str]
) -> str:
    if not found:
        return "No fine-tuned model has been evaluated yet."
    shown, refuted = found.count("calibrated"), found.count("not calibrated")
    if shown == len(found):
        return f"Yes: fine-tuned, its W1 is shown to be within {margin:g} of a perfect sampler's."
    word = f"In part ({shown} of {len(found)} comparisons with a perfect sampler)" if shown else "No"
    if not shown and refuted < len(found):
        word = "Not shown"
    if comparisons is None:
        return f"{word}."
    verdicts = rows_of(comparisons, metric=W1, against="base")
    verdicts = verdicts.loc[verdicts["condition"].isin(methods), "verdict"].tolist()
    if verdicts.count("better"):
        return f"{word}; closer after fine-tuning in {verdicts.count('better')} of {len(verdicts)} tests against base."
    return f"{word}, and no test shows that fine-tuning brings it closer."


def _distance(condition: str, members: Sequence, models: int, margin: float) -> str:
    """A condition's W1 with what it is in units of the perfect sampler's."""
    if models == 1:
        row = members[0]
        interval = f"{row.value:.3f} [{row.ci_low:.3f}, {row.ci_high:.3f}]"
        if not math.isfinite(row.floor):
            return f"{condition} {interval}"
        return (
            f"{condition} {interval}, {row.value / row.floor:.1f} times a perfect sampler's {row.floor:.3f} "
            f"({calibration_verdict(row, margin)})"
        )
    values = pd.Series([row.value for row in members])
    ratios = pd.Series([row.value / row.floor for row in members])
    count = sum(calibration_verdict(row, margin) == "calibrated" for row in members)
    return (
        f"{condition} {values.median():.3f} (median of {len(members)} models, {values.min():.3f} to "
        f"{values.max():.3f}), {ratios.median():.1f} times a perfect sampler's; {count} shown to be within {margin:g} "
        "of it"
    )


def transfer_answer(rows: Aggregates, tests: pd.DataFrame | None, over_models: pd.DataFrame | None) -> Answer:
    """Does it carry over to language? From paired tests of the methods against base and each other.

    Args:
        rows: Aggregate rows.
        tests: Paired tests, columns axis, split, metric, condition, against, difference, ci_low, ci_high, p_adjusted
            and verdict; None where there are none.
        over_models: As for ``calibration_answer``.
    """
    both = {"soft", "hard"} <= set(rows.methods)
    question = f"Does it carry over to language{', and does soft carry over better than hard' if both else ''}?"
    if tests is None:
        return Answer(question, "Not known: no two conditions have been evaluated beyond numbers.", [])
    primary = tests[~tests["split"].isin(SECONDARY_SPLITS) & ~tests["metric"].str.endswith("_tolerant")]
    keys = list(dict.fromkeys(zip(primary["axis"], primary["metric"], strict=True)))
    first, *others = over_models_sentences(rows, over_models, keys, dict.fromkeys(primary["split"], ""))
    if len(rows.models) > 1:
        first, others = "Over models:", [first, *others]
    for _, metric in keys if len(rows.models) == 1 else ():
        parts = [f"{_pair_text(row)})" for row in rows_of(primary, metric=metric).itertuples()]
        others.append(f"{METRICS[metric].title}: {'; '.join(parts)}.")
    listed = over_models if len(rows.models) > 1 and over_models is not None else primary
    listed = listed[listed["metric"].isin([metric for _, metric in keys]) & ~listed["split"].isin(SECONDARY_SPLITS)]
    counts = "; ".join(_pair_counts(listed, rows.conditions))
    return Answer(question, f"{first} {counts}, of {len(keys)} metrics.", others)


def medians_by_condition(rows: Aggregates, axis: str, split: str, metric: str, form: str) -> str:
    """Median over the models by condition in the given format, as "base 1, soft 2"; empty without any."""
    found = {name: rows.defined(axis, split, metric, name) for name in rows.conditions}
    medians = {name: pd.Series([row.value for row in members]).median() for name, members in found.items() if members}
    return ", ".join(f"{name} {value:{form}}" for name, value in medians.items())


def cost_answer(
    rows: Aggregates,
    tests: Mapping[str, pd.DataFrame],
    bits_per_byte: str,
    over_models: pd.DataFrame | None = None,
    choices: Choices | None = None,
    comparisons: pd.DataFrame | None = None,
    at_equal_calibration: pd.DataFrame | None = None,
) -> Answer:
    """What did it cost, and which method is to be chosen?

    From tests against base, from the rate at which questions can be parsed, and from the frontier.

    Args:
        rows: Aggregate rows.
        tests: Axis -> tests against base, columns condition, split, metric and verdict.
        bits_per_byte: The metric's name (with or without BOS).
        over_models: As for ``calibration_answer``.
        choices: ``pipeline.report.tables.frontier.chosen_methods``.
        comparisons: As for ``calibration_answer``, with the column model.
        at_equal_calibration: ``pipeline.report.tables.frontier_costs.equal_calibration``.
    """
    # Of a single method there is nothing to choose.
    choices = {model: found for model, found in (choices or {}).items() if len(_compared_methods(found[0])) > 1}
    sentences = []
    if len(rows.models) > 1:
        asked = [("retention", "accuracy"), ("paloma", bits_per_byte)]
        sentences += over_models_sentences(rows, over_models, asked, {"all": ""})
    for axis, metric, form, sentence in (
        ("retention", "gp_irt", ".3f", "Accuracy on TinyBenchmarks (gp-IRT) is {}."),
        ("paloma", bits_per_byte, ".3f", "Held-out text costs {} bits per byte."),
        ("mcq", "mcq_parse_rate", ".0%", "Of the questions written on request, {} can be parsed."),
    ):
        (split,) = SPLITS[axis]
        listed = medians_by_condition(rows, axis, split, metric, form)
        if listed:
            measured = {"retention": "accuracy", "paloma": bits_per_byte}.get(axis, "")
            verdicts = ""
            if axis in tests:
                verdicts = verdict_sentence(axis, tests[axis], rows.methods, rows.sizes(axis, measured))
            sentences.append(f"{sentence.format(listed)} {verdicts}".strip())
    if len(rows.models) == 1:
        for model, (choice, measure) in choices.items():
            sentences += _choice_sentences(rows, model, choice, measure, comparisons, at_equal_calibration)
    elif choices:
        sentences.append(f"{_RULE} By model: {_chosen_by_model(rows, choices)}.")
    return Answer("What did it cost?", f"{_cost_word(rows, tests)} {_choice_word(choices)}".strip(), sentences)


def _compared_methods(choice: Choice) -> list[str]:
    return [*choice.candidates, *choice.worse]


def _choice_word(choices: Choices) -> str:
    """The method to choose, counted over models where they differ; empty where there was no choice."""
    counts = Counter(choice.method for choice, _ in choices.values())
    named = [(method, count) for method, count in counts.most_common() if method]
    if not named:
        return "No method can be named." if choices else ""
    if len(choices) == 1 or (len(named) == 1 and not counts[""]):
        return f"To choose: {named[0][0]}."
    return f"To choose: {', '.join(f'{method} ({count} of {len(choices)} models)' for method, count in named)}."


def _chosen_by_model(rows: Aggregates, choices: Choices) -> str:
    members: dict[str, list[str]] = {}
    for model, (choice, _) in choices.items():
        members.setdefault(choice.method or "none", []).append(rows.models[model])
    return "; ".join(f"{method} for {', '.join(names)}" for method, names in members.items())


def _choice_sentences(
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
        sentences.append(f"{_RULE} {METRICS[measure.metric].title}, {unit}: {', '.join(values)}.")
    elif choice.candidates:
        listed = ", ".join(choice.candidates)
        sentences.append(f"{_RULE} Neither divergence nor bits per byte was measured under all of {listed}.")
    else:
        sentences.append(f"{_RULE} Each is shown to be worse than another on some split.")
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


def _cost_word(rows: Aggregates, tests: Mapping[str, pd.DataFrame]) -> str:
    """From the primary questions: all tasks together, and all slices."""
    totals = dict.fromkeys(VERDICTS, 0)
    for axis in COST_AXES:
        for method in rows.methods if axis in tests else ():
            for verdict, count in primary_counts(tests[axis], method).items():
                totals[verdict] += count
    parsed_by_base = {row.model: row for row in rows.defined("mcq", "mcq", "mcq_parse_rate", "base")}
    fallen = any(
        row.model in parsed_by_base and row.ci_high < parsed_by_base[row.model].ci_low
        for method in rows.methods
        for row in rows.defined("mcq", "mcq", "mcq_parse_rate", method)
    )
    if not sum(totals.values()) and not parsed_by_base:
        return "Not known: no retention evaluation has been run."
    if totals["lost"] or fallen:
        parts = []
        if totals["lost"]:
            unsure = f" ({totals['cannot tell']} cannot tell)" if totals["cannot tell"] else ""
            parts.append(f"{totals['lost']} of {sum(totals.values())} tests show a loss{unsure}")
        if fallen:
            parts.append("written questions lose their form")
        return f"Some of what base could do: {' and '.join(parts)}."
    if totals["cannot tell"]:
        return "No loss is shown, but the tests cannot rule one out."
    return "Nothing that the tests can see."
