"""Qualitative NoveltyBench cases, Tables 11 to 19: chosen as arXiv:2605.11845, Appendix D.5 says, and as texts."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from pipeline.axes.novelty.report import UTILITY
from pipeline.report.evaluations import Evaluations, rows_of
from pipeline.report.tables.table_text import Shown, escape_markdown, latex_table, markdown_table, shorten

CASES_PER_REGIME = 3
COMPARED = ("base", "soft", "hard")
"""Conditions that the paper's cases compare; without one of them there are none."""
SHOWN_CLASSES = 5
RESPONSE_LIMIT = 160
PROMPT_LIMIT = 400


@dataclass(frozen=True)
class Regime:
    """A ranking of (model, prompt) pairs by a difference of utilities.

    Attributes:
        first_table: Number of its first table.
        caption: What its tables show.
        delta_name: The difference in words.
        delta: From utility by condition.
        sign: 1 where the largest difference comes first, -1 where the smallest does.
        may_be_zero: Whether a difference of 0 still belongs to the regime.
    """

    first_table: int
    caption: str
    delta_name: str
    delta: Callable[[Mapping[str, float]], float]
    sign: int
    may_be_zero: bool = False

    def holds(self, delta: float) -> bool:
        """Whether a difference has the sign that the caption claims."""
        return self.sign * delta > 0 or (self.may_be_zero and delta == 0)


REGIMES = (
    Regime(11, "Soft targets clearly help", "soft - base", lambda u: u["soft"] - u["base"], 1),
    Regime(
        14,
        "Hard targets are competitive or best",
        "hard - max(base, soft)",
        lambda u: u["hard"] - max(u["base"], u["soft"]),
        1,
        may_be_zero=True,
    ),
    Regime(
        17,
        "Failures: fine-tuning lowers utility",
        "max(soft, hard) - base",
        lambda u: max(u["soft"], u["hard"]) - u["base"],
        -1,
    ),
)


class Choice(NamedTuple):
    """A chosen (model, prompt) pair with its difference of utilities."""

    model: str
    prompt_id: str
    delta: float


def select_cases(
    utilities: Mapping[tuple[str, str], Mapping[str, float]], regime: Regime, count: int = CASES_PER_REGIME
) -> list[Choice]:
    """The best-ranked pairs of a regime: other prompts first, then other models, then the larger difference.

    Pairs of the regime's sign come before all others; those come only where there are too few, and their difference
    says so. A prompt (a model) comes again only when no other prompt (model) is left. Ties keep the order of
    ``utilities``, by model and prompt_id, then by condition. Pairs without a finite one under each of COMPARED are not
    ranked.
    """
    ranked = [
        Choice(model, prompt_id, regime.delta(by_condition))
        for (model, prompt_id), by_condition in utilities.items()
        if all(math.isfinite(by_condition.get(condition, math.nan)) for condition in COMPARED)
    ]
    ranked.sort(key=lambda choice: -regime.sign * choice.delta)
    chosen: list[Choice] = []
    while ranked and len(chosen) < count:
        # min keeps the first, that is the best-ranked, among equals.
        best = min(
            ranked,
            key=lambda choice: (
                not regime.holds(choice.delta),
                sum(other.prompt_id == choice.prompt_id for other in chosen),
                sum(other.model == choice.model for other in chosen),
            ),
        )
        ranked.remove(best)
        chosen.append(best)
    return chosen


@dataclass(frozen=True)
class Response:
    """The representative of a class of responses, with the class's size, rating (1 to 10) and reward."""

    text: str
    size: int
    rating: float
    reward: float

    @property
    def short_text(self) -> str:
        """The cut text; an empty response is said to be empty, it would look like no response."""
        return shorten(self.text, RESPONSE_LIMIT) or "(empty response)"


@dataclass(frozen=True)
class ConditionResult:
    """A prompt under one condition: its figures, and the best classes first."""

    distinct: float
    utility: float
    responses: tuple[Response, ...]


@dataclass(frozen=True)
class CaseTable:
    """One of Tables 11 to 19."""

    number: int
    regime: Regime
    model: str
    display_name: str
    category: str
    prompt: str
    delta: float
    stand_in: bool
    results: Mapping[str, ConditionResult]

    @property
    def name(self) -> str:
        """Of its files."""
        return f"table{self.number}{'_stand_in' if self.stand_in else ''}"

    @property
    def holds(self) -> bool:
        """Whether the difference has the sign of the regime; the best-ranked case may lack it."""
        return self.regime.holds(self.delta)

    @property
    def caption(self) -> str:
        """Number, regime, difference, model and category."""
        category = f" ({self.category})" if self.category else ""
        stand_in = ", with stand-in evaluators (not the paper's)" if self.stand_in else ""
        contrary = "" if self.holds else "; no better case exists"
        return (
            f"Table {self.number}. {self.regime.caption}{stand_in}: utility {self.regime.delta_name} = "
            f"{self.delta:+.2f}{contrary}. Model: {self.display_name}{category}"
        )

    @property
    def note(self) -> str:
        """What the columns and brackets are."""
        return (
            "Per condition: Distinct / Utility of the prompt, then the responses that stand for its best-rated classes "
            "(at most five), each with the class's rating. Chosen by that difference among the curated prompts: an "
            f"example, no average; Table 10 has the means. Longer texts are cut here; {self.name}.csv has them whole."
        )

    @property
    def short_prompt(self) -> str:
        """The cut prompt."""
        return shorten(self.prompt, PROMPT_LIMIT)

    @property
    def headers(self) -> list[str]:
        """Title of each condition's column: "base (Distinct / Utility)"."""
        return [f"{name} ({result.distinct:.0f} / {result.utility:.2f})" for name, result in self.results.items()]

    @property
    def lines(self) -> list[tuple[Response | None, ...]]:
        """Responses by rank, then condition; None where a condition has fewer classes."""
        return list(zip_longest(*(result.responses for result in self.results.values())))

    def cells(self, escape: Callable[[str], str]) -> list[list[str]]:
        """The texts of ``lines``, each with its rating."""
        return [
            ["" if found is None else f"{escape(found.short_text)} ({found.rating:g})" for found in line]
            for line in self.lines
        ]


def top_classes(classes: pd.DataFrame, count: int = SHOWN_CLASSES) -> tuple[Response, ...]:
    """The best-rated classes of one prompt; equal ratings keep the order of the classes."""
    ordered = classes.sort_values("class_index", kind="stable").sort_values("rating", ascending=False, kind="stable")
    return tuple(
        Response(row.representative, int(row.size), float(row.rating), float(row.reward))
        for row in ordered[["representative", "size", "rating", "reward"]].head(count).itertuples(index=False)
    )


def case_tables(
    per_prompt: pd.DataFrame, classes: pd.DataFrame, models: Mapping[str, str], stand_in: bool
) -> list[CaseTable]:
    """Tables 11 to 19 from the curated split and ``models``; fewer where fewer pairs of model and prompt exist.

    The tables are those that ``novelty_cases`` reads; ``stand_in``: whether stand-in evaluators gave the figures.
    """
    rows = per_prompt[(per_prompt["split"] == "curated") & per_prompt["model"].isin(models)]
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows.itertuples():
        found.setdefault((row.model, row.prompt_id), {})[row.condition] = row
    utilities = {key: {name: float(row.utility) for name, row in own.items()} for key, own in found.items()}
    # Rows, not data frames: of tens of thousands of groups a few are shown.
    by_case = classes.groupby(["model", "prompt_id", "condition"], sort=False).indices
    tables = []
    for regime in REGIMES:
        for number, choice in enumerate(select_cases(utilities, regime), start=regime.first_table):
            results = {}
            for condition in COMPARED:
                key, row = (choice.model, choice.prompt_id, condition), found[choice.model, choice.prompt_id][condition]
                responses = top_classes(classes.iloc[by_case[key]]) if key in by_case else ()
                results[condition] = ConditionResult(float(row.distinct), float(row.utility), responses)
            names = (choice.model, models[choice.model], row.category, row.prompt)
            tables.append(CaseTable(number, regime, *names, choice.delta, stand_in, results))
    return tables


def novelty_cases(evaluations: Evaluations, models: Mapping[str, str], conditions: Sequence[str]) -> list[CaseTable]:
    """Tables 11 to 19, of the models scored by the benchmark's evaluators and apart from them by stand-ins."""
    columns = ("prompt_id", "split", "category", "prompt", "distinct", "utility")
    class_columns = ("prompt_id", "class_index", "representative", "size", "rating", "reward")
    cases: list[CaseTable] = []
    if not set(COMPARED) <= set(conditions):
        return cases
    for stand_in, metric in UTILITY.items():
        scored = rows_of(evaluations.metrics, axis="novelty", metric=metric)
        pairs = set(zip(scored["model"], scored["condition"], strict=True))
        complete = {m: name for m, name in models.items() if all((m, condition) in pairs for condition in COMPARED)}
        per_prompt = evaluations.stacked("novelty", "per_prompt", columns, complete, COMPARED)
        classes = evaluations.stacked("novelty", "classes", class_columns, complete, COMPARED)
        cases += case_tables(per_prompt, classes, complete, stand_in)
    return cases


def case_frame(case: CaseTable, provenance: Mapping[str, str]) -> pd.DataFrame:
    """Full texts: one row per condition and shown class, with the provenance file of the condition's evaluation."""
    of_case = {
        "model": case.model,
        "display_name": case.display_name,
        "category": case.category,
        "prompt": case.prompt,
        "delta_name": case.regime.delta_name,
        "delta": case.delta,
        "regime_holds": case.holds,
        "stand_in_evaluators": case.stand_in,
    }
    rows = [
        of_case
        | {"condition": condition, "distinct": result.distinct, "utility": result.utility, "rank": rank}
        | {"representative": response.text, "class_size": response.size}
        | {"rating": response.rating, "reward": response.reward, "provenance": provenance.get(condition, "")}
        for condition, result in case.results.items()
        for rank, response in enumerate(result.responses, start=1)
    ]
    return pd.DataFrame(rows)


def case_markdown(case: CaseTable) -> str:
    """A Markdown table with one column per condition."""
    prompt, caption = escape_markdown(case.short_prompt), escape_markdown(case.caption)
    table = markdown_table(case.headers, case.cells(escape_markdown))
    return f"{caption}\n\nPrompt: {prompt}\n\n{table}\n\n{case.note}\n"


def case_latex(case: CaseTable) -> str:
    """A longtable with one column of text per condition."""
    rows = [
        [Shown("") if response is None else Shown(response.short_text, f"({response.rating:g})") for response in line]
        for line in case.lines
    ]
    caption = f"{case.caption}. Prompt: {case.short_prompt}"
    return latex_table(case.name, caption, [header.capitalize() for header in case.headers], rows, case.note)


def write_case_texts(case: CaseTable, directory: Path, provenance: Mapping[str, str]) -> None:
    """Write ``NAME.csv``, ``NAME.md`` and ``NAME.tex``; ``provenance`` is the evaluation's file by condition."""
    case_frame(case, provenance).to_csv(directory / f"{case.name}.csv", index=False, encoding="utf-8")
    (directory / f"{case.name}.md").write_text(case_markdown(case), encoding="utf-8")
    (directory / f"{case.name}.tex").write_text(case_latex(case), encoding="utf-8")
