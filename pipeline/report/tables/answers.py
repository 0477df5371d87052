"""Tables of answers to questions: agreement with people, calibration and its verdict, summaries."""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from pipeline.metrics.uncertainty import UNCERTAINTY_MEASURES
from pipeline.record.provenance import join_sources
from pipeline.report.evaluations import methods_of, rows_of
from pipeline.report.tables.retention import split_names
from pipeline.report.tables.table import (
    DASH,
    ListTable,
    Measure,
    Table,
    detailed_table,
    interval_text,
    measure_of,
    probability_text,
)

QUESTIONS = "Brackets: 95% bootstrap intervals over questions."
PAIRED = f"Condition less base on the same questions. {QUESTIONS}"
HUMAN = (
    measure_of("human_tv", title="TV"),
    measure_of("human_tv", title="TV of people", field="floor", bold=False),
    measure_of("human_within_band"),
    measure_of("human_js_bits"),
    measure_of("human_kl_nats"),
    measure_of("human_recall", title="Recall"),
    measure_of("same_top_answer"),
    measure_of("entropy_gap_nats"),
)
HUMAN_CHANGES = tuple(
    measure_of(f"{name}_difference", title=title)
    for name, title in (("human_tv", "TV"), ("human_js_bits", "JS (bits)"), ("human_recall", "Recall"))
)
JUDGE = tuple(measure_of(name) for name in ("judge_pairs", "judge_calls", "judge_calls_saved"))
_LEVELS = ("accuracy", "confidence", "gap")
_ERRORS = ("smooth_ece", "smooth_ece_sem1", "ece", "ece_equal_mass", "classwise_smooth_ece")
_SCORES = ("brier", "refinement", "auroc", "risk_coverage", "rejection_ratio")
_MEASURES = (
    "semantic_entropy",
    "answer_uncertainty",
    "laplacian_eigenvalues",
    "token_entropy",
    "nucleus_90_entropy",
    "mean_token_entropy",
    "choice_entropy",
)
"""Measures of uncertainty in tables; all are in metrics.csv."""
_OF_PEOPLE = {
    "partial_pearson": "Partial",
    "partial_pearson_difference": "Change",
    "permutation_p": "p",
    "normalised_pearson": "Normalised",
    "normalised_spearman": "Normalised, ranks",
    "raw_pearson": "Raw",
}
_OF_RIGHT = {
    "auroc": "AUROC",
    "auroc_difference": "Change",
    "auroc_within_length": "Within lengths",
    "length_score_spearman": "Length and certainty",
    "risk_coverage": "AURC",
    "rejection_ratio": "PRR",
}
_CHANGES = ("smooth_ece_difference", "gap_difference", "accuracy_difference")


def _calibration_measures(prefix: str) -> list[Measure]:
    error = f"semcal_{prefix}smooth_ece"
    measures = [measure_of(f"semcal_{prefix}{name}") for name in (*_LEVELS, *_ERRORS)]
    floor = measure_of(error, title="SmoothECE, calibrated", field="floor", bold=False)
    measures.insert(len(_LEVELS) + 1, floor)
    return measures if prefix else [*measures, *(measure_of(f"semcal_{name}") for name in _SCORES)]


def calibration_verdict(metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str], error: str) -> str:
    """Whether base is calibrated, and which conditions are better or worse than it, a sentence for each model.

    Base is called calibrated where the interval of its error reaches down to what a calibrated model scores with as
    many questions and answers; a condition is called better or worse where the paired interval leaves out 0.

    Args:
        metrics: The tidy metrics table.
        models: Model name -> display name.
        conditions: Base and the methods, in order.
        error: The metric, e.g. "semcal_smooth_ece"; its change is ERROR_difference.
    """
    rows = rows_of(metrics, axis="semcal", split="all", family="")
    found = {(row.model, row.condition, row.metric): row for row in rows.itertuples()}
    sentences = []
    for model, name in models.items():
        base = found.get((model, "base", error))
        if base is None or not math.isfinite(base.ci_low) or not math.isfinite(base.floor):
            continue
        shown = f"{base.value:.3f} {interval_text(base.ci_low, base.ci_high, 3, '')}"
        against = f"{base.floor:.3f} of a calibrated model"
        calibrated = base.ci_low <= base.floor
        verdict = "cannot be told from a calibrated model" if calibrated else "is not calibrated"
        parts = [f"{name}: base {verdict} ({shown} against {against})"]
        for method in methods_of(conditions):
            row = found.get((model, method, f"{error}_difference"))
            if row is None or not math.isfinite(row.ci_low):
                continue
            word = "better" if row.ci_high < 0 else "worse" if row.ci_low > 0 else "not shown to differ"
            parts.append(f"{method} {word} ({row.value:+.3f} {interval_text(row.ci_low, row.ci_high, 3)})")
        sentences.append("; ".join(parts) + ".")
    return " ".join(sentences)


def by_setting(
    name: str,
    caption: str,
    section: str,
    metrics: pd.DataFrame,
    models: Mapping[str, str],
    shown: Sequence[Measure],
    *conditions: str,
) -> Table | None:
    """The measures under every setting of a section of ``generate``; None where there is one alone."""
    settings = split_names(metrics, shown[0].axis, *(measure.metric for measure in shown))
    measures = [
        dataclasses.replace(
            measure, split=setting, title=f"{measure.title}, {'default' if setting == 'all' else setting}"
        )
        for measure in shown
        for setting in ("all", *settings)
    ]
    if not settings:
        return None
    note = f"Default: as in the other tables; further decoding settings: generate.{section}.settings. {QUESTIONS}"
    return detailed_table(name, caption, note, metrics, models, measures, conditions)


def differences_table(
    name: str,
    caption: str,
    metrics: pd.DataFrame,
    models: Mapping[str, str],
    changes: Sequence[Measure],
    conditions: Sequence[str],
) -> Table | None:
    """Paired changes from base of the methods among ``conditions``; None where there are none."""
    title = f"{caption}: differences from base, paired"
    return detailed_table(f"{name}_differences", title, PAIRED, metrics, models, changes, methods_of(conditions))


def human_tables(metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]) -> list[Table]:
    """Agreement with people, its changes from base, and by decoding setting; those that exist."""
    people = (
        "TV: total variation of the model's law over classes of answers from people's. TV of people: what as many "
        "answers drawn from people's own law score; within the band: questions at most at its 95% quantile, 0.95 for a "
        "model that answers as people do. Recall: share of people whose class was answered at least once. Entropy gap: "
        f"model less people, corrected for the number of answers (Chao, Wang and Jost 2013). {QUESTIONS} Bold: best "
        "condition of the model."
    )
    tables = (
        detailed_table("human", "Agreement with people", people, metrics, models, HUMAN, conditions),
        differences_table("human", "Agreement with people", metrics, models, HUMAN_CHANGES, conditions),
        by_setting(
            "human_by_setting",
            "Agreement with people by decoding setting",
            "questions",
            metrics,
            models,
            (HUMAN[0], HUMAN[7]),
            *conditions,
        ),
        detailed_table(
            "human_judge",
            "What the judge of entailment was asked",
            "Pairs: ordered pairs of answers to one question, under all settings. Judged: different ones that neither "
            "equal texts nor people's spellings decide, counted with a cache that is empty at first.",
            metrics,
            models,
            JUDGE,
            conditions,
        ),
    )
    return [table for table in tables if table is not None]


def selfreflect_tables(metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]) -> list[Table]:
    """How well summaries carry the distribution of a model's answers, and changes from base."""
    measures = [measure_of(f"selfreflect_{name}") for name in ("sampled", "direct", "gain", "perfect", "null")]
    changes = [measure_of(f"selfreflect_{name}_difference") for name in ("sampled", "direct", "gain")]
    note = (
        "Distance of a judge's law of a hidden word given a summary of the model's answers, from its law given their "
        "list. Sampled: the model was shown its answers; direct: it was not. Counts in words: what a complete summary "
        f"scores; other question: what one scores that has nothing to do with the answers. {QUESTIONS} Bold: best "
        "condition of the model."
    )
    caption = "Summaries of a model's answers"
    tables = (
        detailed_table("selfreflect", caption, note, metrics, models, measures, conditions),
        differences_table("selfreflect", caption, metrics, models, changes, conditions),
    )
    return [table for table in tables if table is not None]


def uncertainty_tables(metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]) -> list[ListTable]:
    """Measures of uncertainty against people's entropy, and against right and wrong with the audit for length."""
    rows = rows_of(metrics, axis="uncertainty", split="all", family="")
    found = {(row.metric, row.model, row.condition): row for row in rows.itertuples()}
    people = (
        "Correlation of a measure of uncertainty with the entropy of people's answers. Partial: over questions with as "
        "many classes of people's, with its permutation test; normalised: both over ln of that number; raw: also large "
        f"where both only grow with it. Change: condition less base. {QUESTIONS}"
    )
    alone = [
        f"{row.value:.2f} ({models[model]}, {condition})"
        for model, condition in itertools.product(models, conditions)
        if (row := found.get(("uncertainty_auroc_length", model, condition))) is not None and math.isfinite(row.value)
    ]
    right = (
        "AUROC of a measure for wrong answers, and within groups of answers of like length; of the length alone: "
        f"{', '.join(alone) or 'undefined'}. AURC: area under risk by coverage; PRR: prediction-rejection ratio. "
        f"Change: condition less base. {QUESTIONS}"
    )
    tables = []
    for name, caption, columns, note in (
        ("uncertainty_people", "Uncertainty and people's entropy", _OF_PEOPLE, people),
        ("uncertainty_right", "Uncertainty about right answers and wrong ones", _OF_RIGHT, right),
    ):
        texts, records = [], []
        for model, measure, condition in itertools.product(models, _MEASURES, conditions):
            own = {column: found.get((f"uncertainty_{measure}_{column}", model, condition)) for column in columns}
            present = {column: row for column, row in own.items() if row is not None}
            if present:
                shown = [_correlation_text(column, row, condition) for column, row in own.items()]
                texts.append([models[model], UNCERTAINTY_MEASURES[measure][0], condition, *shown])
                record = {"model": model, "condition": condition, "measure": measure}
                record |= {column: row.value for column, row in present.items()}
                sources = dict.fromkeys(row.provenance for row in present.values())
                records.append({**record, "provenance": join_sources(sources)})
        if texts:
            header = ["Model", "Measure", "Condition", *columns.values()]
            tables.append(ListTable(name, caption, header, texts, 3, pd.DataFrame(records), note))
    return tables


def _correlation_text(column: str, row: Any, condition: str) -> str:
    change = column.endswith("_difference")
    if row is None or (change and condition == "base"):
        return DASH
    if not math.isfinite(row.value):
        return "undefined"
    if column == "permutation_p":
        return probability_text(row.value)
    sign = "+" if change else ""
    interval = f" {interval_text(row.ci_low, row.ci_high, 2, sign)}" if math.isfinite(row.ci_low) else ""
    return f"{row.value:{sign}.2f}{interval}"


def calibration_tables(metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]) -> list[Table]:
    """Semantic calibration against accepted answers and people's, changes from base, by decoding setting."""
    tables = []
    for prefix, against in (("", "accepted answers"), ("people_", "people")):
        error = f"semcal_{prefix}smooth_ece"
        label = "right" if not prefix else "people's answer"
        note = (
            f"{calibration_verdict(metrics, models, conditions, error)} Confidence: Sem2, the share of half of the "
            "answers in the class that is most frequent in the other half; Sem1: the share of all, which is too high. "
            f"Overconfidence: mean confidence less mean label, whether the most frequent class is {label}. SmoothECE, "
            "calibrated: what a calibrated model with the same laws, questions and answers scores. Class-wise: over "
            f"all pairs of a question and a class. {QUESTIONS} Those of errors are centred on the estimate. Bold: "
            "best condition of the model."
        )
        tables.append(
            detailed_table(
                f"semcal_{prefix}calibration",
                f"Semantic calibration against {against}",
                note.strip(),
                metrics,
                models,
                _calibration_measures(prefix),
                conditions,
            )
        )
    changes = [measure_of(f"semcal_{prefix}{name}") for prefix in ("", "people_") for name in _CHANGES]
    tables.append(differences_table("semcal", "Semantic calibration", metrics, models, changes, conditions))
    shown = [measure_of(f"semcal_{prefix}smooth_ece") for prefix in ("", "people_")]
    caption = "Semantic calibration by decoding setting"
    tables.append(by_setting("semcal_by_setting", caption, "questions", metrics, models, shown, *conditions))
    return [table for table in tables if table is not None]
