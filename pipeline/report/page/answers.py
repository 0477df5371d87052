"""The page's first screen in words: to each question the effects, and what the paired tests say of them."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import pandas as pd

from pipeline.axes.registry import METRICS, SHORT_SPLIT_TITLES
from pipeline.config.params import BASE
from pipeline.core.statistics.condition_tests import ALL_PARTS, TESTED
from pipeline.report.evaluations import ReportContext, rows_of
from pipeline.report.retention import WITHOUT_BOS

SECONDARY_SPLITS = ("curated", "wildchat")
"""Splits of NoveltyBench; the primary question is of all its prompts together."""


class Answer(NamedTuple):
    """A question, and sentences that answer it."""

    question: str
    sentences: Sequence[str]


def effects(
    context: ReportContext, axis: str, split: str, metric: str, field: Literal["value", "change"] = "value"
) -> str:
    """A metric, or its paired change from base, by condition, medians over models; empty where no condition has it."""
    rows = rows_of(context.metrics, axis=axis, split=split, family="", metric=metric).dropna(subset=[field])
    rows = rows[rows["model"].isin(context.names)]
    medians = rows.groupby("condition")[field].median()
    digits = METRICS[metric].decimals
    sign = "+" if field == "change" else ""
    texts = [f"{name} {medians[name]:{sign}.{digits}f}" for name in context.conditions if name in medians]
    if not texts:
        return ""
    floor = rows.loc[rows["condition"].isin(context.conditions), "floor"].median()
    perfect = "" if pd.isna(floor) or field == "change" else f" (a perfect sampler: {floor:.{digits}f})"
    models = "" if len(context.names) == 1 else f", medians over {rows['model'].nunique()} models"
    title = METRICS[metric].title + (", change from base" if field == "change" else "")
    where = f", {SHORT_SPLIT_TITLES[split]}" if split in SHORT_SPLIT_TITLES else ""
    return f"{title}{where}: {', '.join(texts)}{perfect}{models}."


def verdicts(tests: pd.DataFrame | None) -> str:
    """How many paired tests against base come to each verdict; empty without any."""
    if tests is None or tests.empty:
        return ""
    counts = rows_of(tests, against=BASE)["verdict"].value_counts()
    return f"Paired tests against base: {', '.join(f'{n} {verdict}' for verdict, n in counts.items())}."


def page_answers(context: ReportContext, structured: pd.DataFrame | None, transfer: pd.DataFrame) -> list[Answer]:
    """The three answers, from paired tests of structured sampling and of what lies beyond numbers."""
    w1 = TESTED[0]
    calibration = [effects(context, "structured", split, w1) for split in ("ood", "unseen")]
    calibration.append(verdicts(structured if structured is None else rows_of(structured, metric=w1)))
    cost = [
        effects(context, "retention", "all", "accuracy", "change"),
        *(effects(context, "paloma", "all", f"bits_per_byte{suffix}", "change") for suffix in ("", WITHOUT_BOS)),
        effects(context, "mcq", "mcq", "mcq_parse_rate"),
        verdicts(rows_of(context.tests("retention"), split=ALL_PARTS).assign(against=BASE)),
    ]
    language = [effects(context, "open", "open", name) for name in ("top_p_support_size", "unique_fraction")]
    language.append(effects(context, "mcq", "mcq", "mcq_total_variation"))
    language += [effects(context, "novelty", "all", name) for name in ("utility", "utility_stand_in")]
    if len(transfer):
        language.append(verdicts(transfer[~transfer["split"].isin(SECONDARY_SPLITS)]))
    questions = {
        "Do the answers follow the distribution?": calibration,
        "What did it cost?": cost,
        "Does it carry over to language?": language,
    }
    return [
        Answer(question, [text for text in sentences if text] or ["Not evaluated."])
        for question, sentences in questions.items()
    ]
