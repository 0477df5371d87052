"""The page's first screen in words: one verdict for each question. The numbers behind it are in figures and tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from pipeline.axes.registry import SPLIT_TITLES
from pipeline.axes.structured.tables import WASSERSTEIN
from pipeline.config.methods import TARGETS
from pipeline.config.params import BASE
from pipeline.core.retention.tasks import GENERATIVE_TASKS
from pipeline.core.statistics.condition_tests import method_pairs
from pipeline.core.statistics.frontier import Choice
from pipeline.report.evaluations import methods_of, rows_of
from pipeline.report.tables.retention_lists import VERDICTS, primary_counts

W1 = WASSERSTEIN.metric
TRANSFER_AXES = ("open", "novelty", "mcq")
SECONDARY_SPLITS = ("curated", "wildchat")
"""Splits of NoveltyBench; the primary question is of all its prompts together."""
RULE = (
    "Rule: of the methods that are not shown to be worse calibrated than another on either split, the one that moved "
    "least from base."
)
Calibrated = Literal["calibrated", "not calibrated", "cannot tell"]


@dataclass(frozen=True)
class Answer:
    """A question, its short answer, and what else has to be said."""

    question: str
    short: str
    sentences: Sequence[str] = ()


@dataclass(frozen=True)
class FirstScreen:
    """What the answers are made from.

    Attributes:
        metrics: The tidy metrics table.
        models: Model name -> display name.
        conditions: Base and the methods, in order.
        between: Paired tests of structured sampling between conditions.
        beyond: Paired tests of the transfer axes.
        over_models: Tests over models of the same questions; None where fewer than two models can be compared.
        against_base: Axis ("retention", "paloma") -> tests against base.
        choices: The method to choose for each model.
        margin: By how much W1 may exceed a perfect sampler's.
    """

    metrics: pd.DataFrame
    models: Mapping[str, str]
    conditions: Sequence[str]
    between: pd.DataFrame | None
    beyond: pd.DataFrame | None
    over_models: pd.DataFrame | None
    against_base: Mapping[str, pd.DataFrame]
    choices: Mapping[str, Choice]
    margin: float

    @property
    def methods(self) -> Sequence[str]:
        """The conditions that have an adapter."""
        return methods_of(self.conditions)


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


def calibration_answer(given: FirstScreen) -> Answer:
    """Is the model calibrated? By method and split against a perfect sampler, and by tests against base."""
    question = "Are the models calibrated?" if len(given.models) > 1 else "Is the model calibrated?"
    rows = rows_of(given.metrics, axis="structured", family="", metric=W1)
    rows = rows[rows["split"].isin(list(SPLIT_TITLES)) & rows["model"].isin(list(given.models)) & rows["value"].notna()]
    if rows.empty:
        return Answer(question, "Not known: no structured evaluation has been run.")
    tuned = rows[rows["condition"].isin(given.methods)]
    verdicts = [calibration_verdict(row, given.margin) for row in tuned.itertuples()]
    if not verdicts:
        return Answer(question, "No fine-tuned model has been evaluated yet.")
    shown = verdicts.count("calibrated")
    if shown == len(verdicts):
        word = f"Yes: fine-tuned, W1 is shown to be within {given.margin:g} of a perfect sampler's"
    elif shown:
        word = f"In part ({shown} of {len(verdicts)} comparisons with a perfect sampler)"
    else:
        word = "No" if verdicts.count("not calibrated") == len(verdicts) else "Not shown"
    tests, kind = _tests(given, given.between)
    if tests is not None:
        closer = rows_of(tests, metric=W1, against=BASE)
        closer = closer.loc[closer["condition"].isin(given.methods), "verdict"]
        if len(closer):
            word += f"; {(closer == 'better').sum()} of {len(closer)} {kind} show it closer than base"
    return Answer(question, f"{word}.")


def _tests(given: FirstScreen, paired: pd.DataFrame | None) -> tuple[pd.DataFrame | None, str]:
    """Tests over models, or of each model where there are none; and what they are."""
    if given.over_models is not None:
        return given.over_models, "tests over models"
    return paired, "paired tests of single models"


def transfer_answer(given: FirstScreen) -> Answer:
    """Does it carry over to language? Verdicts of the methods against base and each other, counted over metrics."""
    both = set(TARGETS) <= set(given.methods)
    question = f"Does it carry over to language{', and does soft carry over better than hard' if both else ''}?"
    tests, kind = _tests(given, given.beyond)
    if tests is None or given.beyond is None:
        return Answer(question, "Not known: no two conditions have been evaluated beyond numbers.")
    tolerant, secondary = tests["metric"].str.endswith("_tolerant"), tests["split"].isin(SECONDARY_SPLITS)
    primary = tests[tests["axis"].isin(TRANSFER_AXES) & ~tolerant & ~secondary]
    parts = []
    for own, other in method_pairs([BASE, *(TARGETS if both else given.methods)]):
        counts = rows_of(primary, condition=own, against=other)["verdict"].value_counts()
        if len(counts):
            parts.append(f"{own} against {other} {', '.join(f'{count} {word}' for word, count in counts.items())}")
    metrics = len(primary[["axis", "metric"]].drop_duplicates())
    return Answer(question, f"{'; '.join(parts)}, of {metrics} metrics ({kind}).")


def cost_answer(given: FirstScreen) -> Answer:
    """What did it cost, and which method is to be chosen?"""
    # Of a single method there is nothing to choose.
    choices = {model: choice for model, choice in given.choices.items() if len([*choice.candidates, *choice.worse]) > 1}
    chosen: dict[str, list[str]] = {}
    for model, choice in choices.items():
        chosen.setdefault(choice.method or "none", []).append(given.models[model])
    several = len(given.models) > 1
    listed = [f"{method} for {', '.join(names)}" if several else method for method, names in chosen.items()]
    short = f"{_cost_word(given)} To choose: {'; '.join(listed)}." if listed else _cost_word(given)
    sentences = [
        f"{given.models[model]}: {sentence}" if several else sentence
        for model, choice in choices.items()
        for sentence in _choice_remarks(given, model, choice)
    ]
    return Answer("What did it cost?", short, [RULE, *sentences] if choices else [])


def _cost_word(given: FirstScreen) -> str:
    """From the primary questions (all tasks together, all slices), and the form of questions and worked answers."""
    totals = dict.fromkeys(VERDICTS, 0)
    for tests in given.against_base.values():
        for method in given.methods:
            for verdict, count in primary_counts(tests, method).items():
                totals[verdict] += count
    parsed = pd.Series(dtype=str)
    if given.beyond is not None:
        parsed = rows_of(given.beyond, metric="mcq_parse_rate", against=BASE)["verdict"]
    derived = rows_of(given.metrics, axis="retention", family="", metric="answer_derivation_share")
    derived = derived[derived["split"].isin(GENERATIVE_TASKS) & derived["condition"].isin(given.methods)]
    losses = []
    if totals["lost"]:
        unsure = f" ({totals['cannot tell']} cannot tell)" if totals["cannot tell"] else ""
        losses.append(f"{totals['lost']} of {sum(totals.values())} tests show a loss{unsure}")
    if (parsed == "worse").any():
        losses.append("written questions lose their form")
    if (derived["change_high"] < 0).any():
        losses.append("worked answers lose their derivations")
    if losses:
        return f"Some of what base could do: {', '.join(losses)}."
    if not sum(totals.values()) and parsed.empty:
        return "Not known: no retention evaluation has been run."
    if totals["cannot tell"]:
        return "No loss is shown, but the tests cannot rule one out."
    return "Nothing that the tests can see."


def _choice_remarks(given: FirstScreen, model: str, choice: Choice) -> list[str]:
    """Which methods were left out and why, and whether the chosen one is shown to be better than base."""
    reasons = []
    for method, (split, other, tested) in choice.worse.items():
        reason = f"than {other} on" if other else "undefined on"
        untested = ", by their intervals, without a test" if other and not tested else ""
        reasons.append(f"{method} ({reason} {SPLIT_TITLES[split]}{untested})")
    remarks = [f"Left out as worse calibrated: {', '.join(reasons)}."] if reasons else []
    if choice.method and given.between is not None:
        tested = rows_of(given.between, model=model, metric=W1, condition=choice.method, against=BASE)
        if len(tested) and not (tested["verdict"] == "better").any():
            remarks.append(f"No test shows {choice.method} to be closer to the target than base.")
    return remarks
