"""The page's first screen in words: is the model calibrated, does it carry over to language, and what did it cost?"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import pandas as pd

from pipeline.axes.registry import METRICS, SPLIT_TITLES
from pipeline.config.methods import TARGETS
from pipeline.core.retention.tasks import GENERATIVE_TASKS
from pipeline.core.statistics.condition_tests import method_pairs
from pipeline.report.evaluations import rows_of
from pipeline.report.page.aggregates import W1, Aggregates, median, medians_by_condition
from pipeline.report.page.choices import RULE, Choices, choice_sentences, choice_word, chosen_by_model, compared_methods
from pipeline.report.tables.retention_lists import VERDICTS, grouped, primary_counts, primary_sentence
from pipeline.report.tables.table import interval_text, probability_text, signed_text

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


class TestCell(NamedTuple):
    """What a paired test found: the difference with its interval, and the verdict; empty where there is no test."""

    text: str = ""
    verdict: str = ""


@dataclass(frozen=True)
class Answer:
    """A question, its short answer, and what is behind it.

    Attributes:
        question: The question.
        short: The answer in one or two sentences.
        sentences: What it rests on.
        tests: The same as a table: a row per pair of conditions, its cells by the titles of ``metrics``.
        metrics: Titles of the columns of ``tests``.
    """

    question: str
    short: str
    sentences: Sequence[str]
    tests: Mapping[str, Sequence[TestCell]] = field(default_factory=dict)
    metrics: Sequence[str] = ()


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
        over_models: Tests over models, see ``pipeline.report.across_axes.model_tests``.
    """
    question = "Are the models calibrated?" if len(rows.models) > 1 else "Is the model calibrated?"
    sentences, found = [], []
    for split, name in SPLIT_TITLES.items():
        members = {each: rows.defined("structured", split, W1, each) for each in rows.conditions}
        members = {condition: own for condition, own in members.items() if own}
        methods = {condition: own for condition, own in members.items() if condition in rows.methods}
        found += [calibration_verdict(row, margin) for own in methods.values() for row in own]
        # Base and the method that comes closest; all others stand in the table below.
        closest = min(methods, key=lambda method: median(methods[method]), default="")
        parts = [
            _distance(condition, own, len(rows.models), margin)
            for condition, own in members.items()
            if condition not in methods or condition == closest
        ]
        if parts:
            lowest = f", lowest of {len(methods)} methods" if len(methods) > 1 else ""
            sentences.append(f"On {name}, normalised W1 is {'; '.join(parts)}{lowest}.")
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
    return f"{row.condition} against {row.against} {row.verdict} ({_difference_text(row)}"


def _difference_text(row) -> str:
    decimals = METRICS[row.metric].decimals
    return f"{signed_text(row.difference, decimals)} {interval_text(row.ci_low, row.ci_high, decimals)}"


def _compared(p: float) -> str:
    text = probability_text(p)
    return text if text.startswith("<") else f"= {text}"


def _comparison_sentences(comparisons: pd.DataFrame | None, conditions: Sequence[str]) -> list[str]:
    """What the paired tests of W1 say of base and the methods, counted over models and splits."""
    parts = [] if comparisons is None else _pair_counts(rows_of(comparisons, metric=W1), conditions)
    return [f"Paired tests of W1 on the same prompts, one per model and split: {'; '.join(parts)}."] if parts else []


def _pair_counts(tests: pd.DataFrame, conditions: Sequence[str]) -> list[str]:
    """The verdicts of each pair of base and methods, counted; what is compared with the same, and comes out the same,
    together."""
    texts: dict[str, dict[str, str]] = {}
    for own, other in method_pairs(conditions):
        chosen = rows_of(tests, condition=own, against=other)
        counts = ", ".join(f"{count} {verdict}" for verdict, count in chosen["verdict"].value_counts().items())
        texts.setdefault(other, {})[own] = counts
    return [part for other, counts in texts.items() for part in grouped(counts, f" against {other}")]


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
    values = [row.value for row in members]
    ratios = pd.Series([row.value / row.floor for row in members])
    count = sum(calibration_verdict(row, margin) == "calibrated" for row in members)
    return (
        f"{condition} {median(members):.3f} (median of {len(members)} models, {min(values):.3f} to "
        f"{max(values):.3f}), {ratios.median():.1f} times a perfect sampler's; {count} shown to be within {margin:g} "
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
    # What the question asks: the paper's methods against base, and each other where both are there.
    asked = ["base", *(TARGETS if both else rows.methods)]
    if len(rows.models) == 1:
        counts = "; ".join(_pair_counts(primary, asked))
        tested = set(zip(primary["condition"], primary["against"], strict=True))
        pairs = [pair for pair in method_pairs(rows.conditions) if pair in tested]
        cells = {
            f"{own} − {other}": [_test_cell(primary, own, other, metric) for _, metric in keys] for own, other in pairs
        }
        return Answer(
            question, f"{counts}, of {len(keys)} metrics.", [], cells, [METRICS[metric].title for _, metric in keys]
        )
    listed = over_models if over_models is not None else primary
    listed = listed[listed["metric"].isin([metric for _, metric in keys]) & ~listed["split"].isin(SECONDARY_SPLITS)]
    counts = "; ".join(_pair_counts(listed, asked))
    sentences = over_models_sentences(rows, over_models, keys, dict.fromkeys(primary["split"], ""))
    return Answer(question, f"Over models: {counts}, of {len(keys)} metrics.", sentences)


def _test_cell(tests: pd.DataFrame, own: str, other: str, metric: str) -> TestCell:
    found = rows_of(tests, condition=own, against=other, metric=metric)
    if found.empty:
        return TestCell()
    row = next(found.itertuples())
    return TestCell(_difference_text(row), row.verdict)


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

    From tests against base, from the rate at which questions can be parsed, from the share of worked answers that show
    a derivation, and from the frontier.

    Args:
        rows: Aggregate rows.
        tests: Axis -> tests against base, columns condition, split, metric and verdict.
        bits_per_byte: The metric's name (with or without BOS).
        over_models: As for ``calibration_answer``.
        choices: ``pipeline.report.across_axes.frontier.chosen_methods``.
        comparisons: As for ``calibration_answer``, with the column model.
        at_equal_calibration: ``pipeline.report.across_axes.frontier_costs.equal_calibration``.
    """
    # Of a single method there is nothing to choose.
    choices = {model: found for model, found in (choices or {}).items() if len(compared_methods(found[0])) > 1}
    sentences = []
    if len(rows.models) > 1:
        asked = [("retention", "accuracy"), ("paloma", bits_per_byte)]
        sentences += over_models_sentences(rows, over_models, asked, {"all": ""})
    tiny = any(rows.defined("retention", "all", "gp_irt", name) for name in rows.conditions)
    ability, of = ("gp_irt", "TinyBenchmarks (gp-IRT)") if tiny else ("accuracy", "GSM8K")
    worked = [
        ("retention", task, "answer_derivation_share", ".0%", f"Of the answers to {task}, {{}} show a derivation.")
        for task in GENERATIVE_TASKS
    ]
    for axis, split, metric, form, sentence in (
        ("retention", "all", ability, ".3f", f"Accuracy on {of} is {{}}."),
        *worked,
        ("paloma", "all", bits_per_byte, ".3f", "Held-out text costs {} bits per byte."),
        ("mcq", "mcq", "mcq_parse_rate", ".0%", "Of the questions written on request, {} can be parsed."),
    ):
        listed = medians_by_condition(rows, axis, split, metric, form)
        if listed:
            tested = axis in tests and split == "all"
            verdicts = primary_sentence(axis, tests[axis], rows.methods) if tested else ""
            sentences.append(f"{sentence.format(listed)} {verdicts}".strip())
    if len(rows.models) == 1:
        for model, (choice, measure) in choices.items():
            sentences += choice_sentences(rows, model, choice, measure, comparisons, at_equal_calibration)
    elif choices:
        sentences.append(f"{RULE} By model: {chosen_by_model(rows, choices)}.")
    return Answer("What did it cost?", f"{_cost_word(rows, tests)} {choice_word(choices)}".strip(), sentences)


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
    bare = any(
        row.ci_high < 0
        for method in rows.methods
        for task in GENERATIVE_TASKS
        for row in rows.defined("retention", task, "answer_derivation_share_difference", method)
    )
    if not sum(totals.values()) and not parsed_by_base:
        return "Not known: no retention evaluation has been run."
    if totals["lost"] or fallen or bare:
        parts = []
        if totals["lost"]:
            unsure = f" ({totals['cannot tell']} cannot tell)" if totals["cannot tell"] else ""
            parts.append(f"{totals['lost']} of {sum(totals.values())} tests show a loss{unsure}")
        if fallen:
            parts.append("written questions lose their form")
        if bare:
            parts.append("worked answers lose their derivations")
        return f"Some of what base could do: {', '.join(parts)}."
    if totals["cannot tell"]:
        return "No loss is shown, but the tests cannot rule one out."
    return "Nothing that the tests can see."
