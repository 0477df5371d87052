"""Qualitative NoveltyBench cases, Tables 11 to 19: chosen as arXiv:2605.11845, Appendix D.5 says."""

from collections.abc import Mapping
from itertools import zip_longest

import numpy as np
import pandas as pd

from pipeline.axes.novelty.metrics import UTILITY
from pipeline.report.evaluations import ReportContext, rows_of
from pipeline.report.table import Table
from pipeline.report.table_text import shorten

CASES = 3
COMPARED = ("base", "soft", "hard")
"""Conditions that the paper's cases compare; without one of them there are none."""
SHOWN_CLASSES = 5
RESPONSE_LIMIT, PROMPT_LIMIT = 160, 400
REGIMES = {
    11: ("Soft targets clearly help", "soft - base", lambda base, soft, hard: soft - base),
    14: (
        "Hard targets are competitive or best",
        "hard - max(base, soft)",
        lambda base, soft, hard: hard - np.maximum(base, soft),
    ),
    17: (
        "Failures: fine-tuning lowers utility",
        "base - max(soft, hard)",
        lambda base, soft, hard: base - np.maximum(soft, hard),
    ),
}
"""By the number of its first table: caption, and a difference of utilities by which cases are ranked, largest first."""
NOTE = (
    "Per condition: Distinct / Utility of the prompt, then the responses that stand for its best-rated classes (at "
    "most five), each with the class's rating. Chosen by that difference among the curated prompts: an example, no "
    "average; Table 10 has the means. Longer texts are cut here; {name}.csv has them whole."
)
PROMPT_COLUMNS = ("prompt_id", "split", "category", "prompt", "distinct", "utility")
CLASS_COLUMNS = ("prompt_id", "class_index", "representative", "size", "rating", "reward")


def select_cases(differences: pd.Series) -> list[tuple[str, str]]:
    """The best-ranked pairs of model and prompt_id: other prompts first, then other models, then larger differences,
    below 0 only where there are too few others. Ties keep their order."""
    ranked = list((-differences).sort_values(kind="stable").index)
    chosen: list[tuple[str, str]] = []

    def order(pair: tuple[str, str]) -> tuple[bool, int, int]:
        models, prompts = ([other[part] for other in chosen] for part in (0, 1))
        return differences[pair] < 0, prompts.count(pair[1]), models.count(pair[0])

    while ranked and len(chosen) < CASES:
        # min keeps the first, that is the best-ranked, among equals.
        chosen.append(min(ranked, key=order))
        ranked.remove(chosen[-1])
    return chosen


def case_tables(
    per_prompt: pd.DataFrame, classes: pd.DataFrame, models: Mapping[str, str], stand_in: bool
) -> list[Table]:
    """Tables 11 to 19 from the curated split, fewer where there are fewer pairs of model and prompt, of rows with
    model, condition and PROMPT_COLUMNS or CLASS_COLUMNS."""
    rows = per_prompt[per_prompt["split"] == "curated"].set_index(["model", "prompt_id"])
    utilities = [rows.loc[rows["condition"] == name, "utility"] for name in COMPARED]
    best = classes.sort_values(["rating", "class_index"], ascending=[False, True])
    best = best.groupby(["model", "prompt_id", "condition"]).head(SHOWN_CLASSES)
    suffix, warning = ("_stand_in", "With stand-in evaluators (not those of the paper). ") if stand_in else ("", "")
    tables = []
    for first_table, (regime, compared, difference) in REGIMES.items():
        differences = difference(*utilities).dropna()
        for number, pair in enumerate(select_cases(differences), start=first_table):
            name, gain = f"table{number}{suffix}", f"utility {compared} = {differences[pair]:+.2f}"
            caption = f"Table {number}. {warning}{regime}: {gain}. Model: {models[pair[0]]}"
            own = rows.loc[[pair]].reset_index().set_index("condition", drop=False).loc[list(COMPARED)]
            own = own.reset_index(drop=True)
            frame = own.merge(best, on=["model", "condition", "prompt_id"])
            headers, columns = ["Prompt"], [[shorten(own["prompt"].iloc[0], PROMPT_LIMIT)]]
            for row in own.itertuples():
                headers.append(f"{row.condition} ({row.distinct:.0f} / {row.utility:.2f})")
                shown = frame[frame["condition"] == row.condition]
                # An empty text would look like no response.
                texts = (shorten(text, RESPONSE_LIMIT) or "(empty response)" for text in shown["representative"])
                columns.append([f"{text} ({rating:g})" for text, rating in zip(texts, shown["rating"], strict=True)])
            cells = list(zip_longest(*columns, fillvalue=""))
            tables.append(Table(name, caption, headers, cells, 1, frame, NOTE.format(name=name)))
    return tables


def novelty_cases(context: ReportContext) -> list[Table]:
    """Tables 11 to 19, of the models scored by the benchmark's evaluators and apart from them by stand-ins."""
    cases: list[Table] = []
    for stand_in, metric in UTILITY.items() if set(COMPARED) <= set(context.conditions) else ():
        scored = rows_of(context.metrics, axis="novelty", metric=metric).groupby("model")["condition"].agg(set)
        complete = [model for model in context.names if set(COMPARED) <= scored.get(model, set())]
        parts = (("per_prompt", PROMPT_COLUMNS), ("classes", CLASS_COLUMNS))
        tables = (context.evaluations.stacked("novelty", *part, complete, COMPARED) for part in parts)
        cases += case_tables(*tables, context.names, stand_in)
    return cases
