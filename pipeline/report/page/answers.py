"""The page's first screen in words: one verdict for each question. The numbers behind it are in figures and tables."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import pandas as pd

from pipeline.axes.registry import SPLIT_TITLES
from pipeline.config.methods import TARGETS
from pipeline.config.params import BASE
from pipeline.core.retention.tasks import GENERATIVE_TASKS
from pipeline.core.statistics.condition_tests import ALL_PARTS, method_pairs
from pipeline.core.statistics.frontier import Choice
from pipeline.report.across_axes.frontier import W1
from pipeline.report.evaluations import ReportContext, rows_of
from pipeline.report.retention import one_variant

SECONDARY_SPLITS = ("curated", "wildchat")
"""Splits of NoveltyBench; the primary question is of all its prompts together."""
Calibrated = Literal["calibrated", "not calibrated", "cannot tell"]


class Answer(NamedTuple):
    """A question and its short answer."""

    question: str
    short: str


class PairedTests(NamedTuple):
    """Paired tests of structured sampling and of the transfer axes, None without any; and of tasks and of text
    against base.
    """

    between: pd.DataFrame | None = None
    beyond: pd.DataFrame | None = None
    against_base: Sequence[pd.DataFrame] = ()


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


def calibration_answer(context: ReportContext, tests: PairedTests) -> Answer:
    """Is the model calibrated? By method and split against a perfect sampler, and by tests against base."""
    question = "Are the models calibrated?" if len(context.names) > 1 else "Is the model calibrated?"
    rows = rows_of(context.metrics, axis="structured", family="", metric=W1)
    rows = rows[rows["split"].isin(SPLIT_TITLES) & rows["model"].isin(context.names) & rows["value"].notna()]
    if rows.empty:
        return Answer(question, "Not known: no structured evaluation has been run.")
    margin, tuned = context.params.tests.wasserstein_margin, rows[rows["condition"].isin(context.methods)]
    verdicts = [calibration_verdict(row, margin) for row in tuned.itertuples()]
    if not verdicts:
        return Answer(question, "No fine-tuned model has been evaluated yet.")
    shown = verdicts.count("calibrated")
    if shown == len(verdicts):
        word = f"Yes: fine-tuned, W1 is shown to be within {margin:g} of a perfect sampler's"
    elif shown:
        word = f"In part ({shown} of {len(verdicts)} comparisons with a perfect sampler)"
    else:
        word = "No" if verdicts.count("not calibrated") == len(verdicts) else "Not shown"
    if tests.between is not None:
        closer = rows_of(tests.between, metric=W1, against=BASE)
        closer = closer.loc[closer["condition"].isin(context.methods), "verdict"]
        if len(closer):
            word += f"; {(closer == 'better').sum()} of {len(closer)} paired tests show it closer than base"
    return Answer(question, f"{word}.")


def transfer_answer(context: ReportContext, tests: PairedTests) -> Answer:
    """Does it carry over to language? Verdicts of the methods against base and each other, counted over metrics."""
    both = set(TARGETS) <= set(context.methods)
    question = f"Does it carry over to language{', and does soft carry over better than hard' if both else ''}?"
    if tests.beyond is None:
        return Answer(question, "Not known: no two conditions have been evaluated beyond numbers.")
    primary = tests.beyond[~tests.beyond["split"].isin(SECONDARY_SPLITS)]
    parts = []
    for own, other in method_pairs([BASE, *(TARGETS if both else context.methods)]):
        counts = rows_of(primary, condition=own, against=other)["verdict"].value_counts()
        if len(counts):
            parts.append(f"{own} against {other} {', '.join(f'{count} {word}' for word, count in counts.items())}")
    metrics = len(primary[["axis", "metric"]].drop_duplicates())
    return Answer(question, f"{'; '.join(parts)}, of {metrics} metrics.")


def cost_answer(context: ReportContext, tests: PairedTests, choices: Mapping[str, Choice]) -> Answer:
    """What did it cost, and which method is to be chosen, where there are several?"""
    chosen: dict[str, list[str]] = {}
    for model, choice in choices.items():
        if len([*choice.candidates, *choice.worse]) > 1:
            chosen.setdefault(choice.method or "none", []).append(context.names[model])
    several = len(context.names) > 1
    listed = [f"{method} for {', '.join(names)}" if several else method for method, names in chosen.items()]
    answer = _cost(context, tests)
    return Answer("What did it cost?", f"{answer} To choose: {'; '.join(listed)}." if listed else answer)


def _cost(context: ReportContext, tests: PairedTests) -> str:
    """From the primary questions (all tasks together, all slices), and the form of questions and worked answers."""
    verdicts = [rows_of(one_variant(table), split=ALL_PARTS)["verdict"] for table in tests.against_base]
    counts = pd.concat([pd.Series(dtype=str), *verdicts]).value_counts()
    lost, unsure = counts.get("lost", 0), counts.get("cannot tell", 0)
    parsed = pd.Series(dtype=str)
    if tests.beyond is not None:
        parsed = rows_of(tests.beyond, metric="mcq_parse_rate", against=BASE)["verdict"]
    derived = rows_of(context.metrics, axis="retention", family="", metric="answer_derivation_share")
    derived = derived[derived["split"].isin(GENERATIVE_TASKS) & derived["condition"].isin(context.methods)]
    losses = []
    if lost:
        doubt = f" ({unsure} cannot tell)" if unsure else ""
        losses.append(f"{lost} of {counts.sum()} tests show a loss{doubt}")
    if (parsed == "worse").any():
        losses.append("written questions lose their form")
    if (derived["change_high"] < 0).any():
        losses.append("worked answers lose their derivations")
    if losses:
        return f"Some of what base could do: {', '.join(losses)}."
    if counts.empty and parsed.empty:
        return "Not known: no retention evaluation has been run."
    return "No loss is shown, but the tests cannot rule one out." if unsure else "Nothing that the tests can see."
