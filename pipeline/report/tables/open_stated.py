"""What the paper's text says of open-ended answers in numbers, beside the same of these evaluations."""

from collections.abc import Iterator, Mapping

import pandas as pd

from pipeline.config.params import CONDITIONS, METHODS
from pipeline.record.provenance import join_sources
from pipeline.report.evaluations import Evaluations
from pipeline.report.figures.open_ended import answer_shares, prompt_pairs
from pipeline.report.tables.table import DASH, ListTable

SUPPORT = "top_p_support_size"
LARGER_SUPPORT = "Prompts with a larger top-90% support than under base"
CONCENTRATION = {"weekday": 1, "city": 4}
"""Categories of which the text gives the share of the most frequent answers, and of how many."""
STATED = {
    LARGER_SUPPORT: {"12 models": ("", "1101 of 1224", "1089 of 1224")},
    "weekday": {"Qwen3-14B": ("80%", "about 40%", "about 40%")},
    "city": {"Gemma-3-27B-it": ("74%", "15%", "24%")},
}
"""Printed in arXiv:2605.11845, Appendix D: by model, of base, soft and hard."""


def open_stated_table(evaluations: Evaluations, models: Mapping[str, str]) -> ListTable | None:
    """One row per number and model, the paper's marked as such; None without an open-ended evaluation.

    Args:
        evaluations: What there is.
        models: Model name -> display name.
    """
    own = [*_larger_support(evaluations, models), *_concentrations(evaluations, models)]
    if not own:
        return None
    rows, sources = [], []
    for quantity, stated in STATED.items():
        found = [(texts, paths) for name, texts, paths in own if name == quantity]
        title = quantity if quantity == LARGER_SUPPORT else _title(quantity)
        rows += [[title, *texts] for texts, _ in found]
        rows += [[title, f"{model} (paper)", *(text or DASH for text in texts)] for model, texts in stated.items()]
        sources += [*(paths for _, paths in found), *[""] * len(stated)]
    frame = pd.DataFrame(rows, columns=["quantity", "of", *CONDITIONS]).assign(provenance=sources)
    return ListTable(
        "open_stated",
        "Open-ended answers: what the paper's text says, and what these models do",
        ["Number", "Of", *CONDITIONS],
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


def _larger_support(evaluations: Evaluations, models: Mapping[str, str]) -> Iterator[Row]:
    per_prompt = evaluations.stacked("open", "per_prompt", ("prompt_id", SUPPORT), list(models), CONDITIONS)
    pairs = {method: prompt_pairs(per_prompt, SUPPORT, method) for method in METHODS} if len(per_prompt) else {}
    if any(len(found) for found in pairs.values()):
        texts = [f"{int((p['tuned'] > p['base']).sum())} of {len(p)}" if len(p) else DASH for p in pairs.values()]
        used = sorted({model for found in pairs.values() for model in found["model"]})
        yield LARGER_SUPPORT, [", ".join(models[m] for m in used), DASH, *texts], _sources(evaluations, used)


def _concentrations(evaluations: Evaluations, models: Mapping[str, str]) -> Iterator[Row]:
    answers = evaluations.stacked("open", "answers", ("category", "answer", "count"), list(models), CONDITIONS)
    for (category, model), members in answers.groupby(["category", "model"], sort=False):
        if category in CONCENTRATION:
            shares = answer_shares(members)
            first = {name: sum([*found.values()][: CONCENTRATION[category]]) for name, found in shares.items()}
            texts = [f"{first[name]:.0%}" if name in first else DASH for name in CONDITIONS]
            yield str(category), [models[model], *texts], _sources(evaluations, [model])


def _sources(evaluations: Evaluations, models: list[str]) -> str:
    keys = [("open", model, condition) for model in models for condition in CONDITIONS]
    return join_sources(evaluations.sources.get(key) for key in keys)
