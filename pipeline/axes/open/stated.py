"""What the paper's text says of open-ended answers in numbers, beside the same of these evaluations."""

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from pipeline.record.provenance import join_sources
from pipeline.report.evaluations import Evaluations, methods_of
from pipeline.report.table import DASH, Table

SUPPORT = "top_p_support_size"
LARGER_SUPPORT = "Prompts with a larger top-90% support than under base"
CONCENTRATION = {"weekday": 1, "city": 4}
"""Categories of which the text gives the share of the most frequent answers, and of how many."""
STATED = {
    LARGER_SUPPORT: {"12 models": {"soft": "1101 of 1224", "hard": "1089 of 1224"}},
    "weekday": {"Qwen3-14B": {"base": "80%", "soft": "about 40%", "hard": "about 40%"}},
    "city": {"Gemma-3-27B-it": {"base": "74%", "soft": "15%", "hard": "24%"}},
}
"""Printed in arXiv:2605.11845, Appendix D: by model and condition."""


def prompt_pairs(per_prompt: pd.DataFrame, column: str, method: str) -> pd.DataFrame:
    """Prompts with a finite ``column`` under base and under a method: columns model, base, tuned."""
    values = per_prompt.set_index(["model", "prompt_id"])
    base, tuned = (values.loc[values["condition"] == c, column].astype(float) for c in ("base", method))
    pairs = pd.concat({"base": base, "tuned": tuned}, axis=1, join="inner").dropna()
    return pairs.reset_index()[["model", "base", "tuned"]]


def answer_shares(answers: pd.DataFrame, conditions: Sequence[str]) -> dict[str, dict[str, float]]:
    """Share of each answer among all non-empty answers, most frequent first, by condition that has any.

    ``answers`` has columns condition, answer and count, for one model and category.
    """
    shares = {}
    for condition in conditions:
        counts = answers[answers["condition"] == condition].groupby("answer")["count"].sum()
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        total = sum(count for _, count in ordered)
        if total:
            shares[condition] = {answer: float(count / total) for answer, count in ordered}
    return shares


def open_stated_table(evaluations: Evaluations, models: Mapping[str, str], conditions: Sequence[str]) -> Table | None:
    """One row per number and model, the paper's marked as such; None without an open-ended evaluation."""
    own = [*_larger_support(evaluations, models, conditions), *_concentrations(evaluations, models, conditions)]
    if not own:
        return None
    rows, sources = [], []
    for quantity, stated in STATED.items():
        found = [(texts, paths) for name, texts, paths in own if name == quantity]
        title = quantity if quantity == LARGER_SUPPORT else _title(quantity)
        rows += [[title, *texts] for texts, _ in found]
        rows += [
            [title, f"{model} (paper)", *(texts.get(name, DASH) for name in conditions)]
            for model, texts in stated.items()
        ]
        sources += [*(paths for _, paths in found), *[""] * len(stated)]
    frame = pd.DataFrame(rows, columns=["quantity", "of", *conditions]).assign(provenance=sources)
    return Table(
        "open_stated",
        "Open-ended answers: what the paper's text says, and what these models do",
        ["Number", "Of", *conditions],
        rows,
        2,
        frame,
        "(paper): printed in arXiv:2605.11845, Appendix D, of its own models; no result of ours. Larger support: of "
        "the pairs of a prompt and a model, strictly larger, as Figure 9 counts. Shares: of all answers that are not "
        "empty, on each condition's own most frequent ones; the text leaves open whether the four cities are base's.",
    )


def _title(category: str) -> str:
    count = CONCENTRATION[category]
    return f"Share of the {'most frequent answer' if count == 1 else f'{count} most frequent answers'}, {category}"


Row = tuple[str, list[str], str]
"""Quantity, texts (whose, then by condition) and provenance."""


def _larger_support(evaluations: Evaluations, models: Mapping[str, str], conditions: Sequence[str]) -> Iterator[Row]:
    per_prompt = evaluations.stacked("open", "per_prompt", ("prompt_id", SUPPORT), list(models), conditions)
    methods = methods_of(conditions) if len(per_prompt) else ()
    pairs = {method: prompt_pairs(per_prompt, SUPPORT, method) for method in methods}
    if any(len(found) for found in pairs.values()):
        texts = [f"{int((p['tuned'] > p['base']).sum())} of {len(p)}" if len(p) else DASH for p in pairs.values()]
        used = sorted({model for found in pairs.values() for model in found["model"]})
        yield (
            LARGER_SUPPORT,
            [", ".join(models[m] for m in used), DASH, *texts],
            _sources(evaluations, used, conditions),
        )


def _concentrations(evaluations: Evaluations, models: Mapping[str, str], conditions: Sequence[str]) -> Iterator[Row]:
    answers = evaluations.stacked("open", "answers", ("category", "answer", "count"), list(models), conditions)
    for (category, model), members in answers.groupby(["category", "model"], sort=False):
        if category in CONCENTRATION:
            shares = answer_shares(members, conditions)
            first = {name: sum([*found.values()][: CONCENTRATION[category]]) for name, found in shares.items()}
            texts = [f"{first[name]:.0%}" if name in first else DASH for name in conditions]
            yield str(category), [models[model], *texts], _sources(evaluations, [model], conditions)


def _sources(evaluations: Evaluations, models: list[str], conditions: Sequence[str]) -> str:
    keys = [("open", model, condition) for model in models for condition in conditions]
    return join_sources(evaluations.sources.get(key) for key in keys)
