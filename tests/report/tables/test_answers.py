"""Tables of answers to questions: what they show, and what the verdict on calibration says in words."""

import math

import pandas as pd
import pytest

from pipeline.report.figures.answers import entropies_of_people, people_bars, reliability_diagrams
from pipeline.report.tables.answers import (
    calibration_tables,
    calibration_verdict,
    human_tables,
    selfreflect_tables,
    uncertainty_tables,
)
from pipeline.report.tables.inverse_entropy import inverse_entropy_tables
from tests.report.conftest import CONDITIONS, metric_frame, metric_row

MODELS = {"alpha": "Alpha"}
ERROR = "semcal_smooth_ece"


def calibration(base, change, floor=0.05, width=0.02):
    """Rows of base's error and of the changes of soft and hard."""
    rows = [metric_row("semcal", "alpha", "base", "all", ERROR, base, width=width, floor=floor, n=40)]
    for condition, value in zip(CONDITIONS[1:], change, strict=True):
        rows.append(
            metric_row("semcal", "alpha", condition, "all", ERROR, base + value, width=width, floor=floor, n=40)
        )
        rows.append(metric_row("semcal", "alpha", condition, "all", f"{ERROR}_difference", value, width=width, n=40))
    return metric_frame(rows)


@pytest.mark.parametrize(
    ("base", "change", "words"),
    [
        (0.2, (-0.1, 0.1), ("base is not calibrated", "soft better (-0.100 [-0.120, -0.080])", "hard worse (+0.100")),
        (0.06, (0.01, -0.01), ("base cannot be told from a calibrated model", "soft not shown to differ", "hard not")),
    ],
)
def test_the_headline_question_is_answered_in_a_sentence(base, change, words):
    found = calibration_verdict(calibration(base, change), MODELS, CONDITIONS, ERROR)
    assert found.startswith("Alpha: base ") and found.endswith(".") and "against 0.050 of a calibrated model" in found
    assert all(part in found for part in words)


def test_no_verdict_without_an_interval_or_an_evaluation():
    assert calibration_verdict(metric_frame([]), MODELS, CONDITIONS, ERROR) == ""
    assert calibration_verdict(calibration(math.nan, (math.nan, math.nan)), MODELS, CONDITIONS, ERROR) == ""
    assert human_tables(metric_frame([]), MODELS, CONDITIONS) == []
    assert calibration_tables(metric_frame([]), MODELS, CONDITIONS) == []
    assert uncertainty_tables(metric_frame([]), MODELS, CONDITIONS) == []


def test_tables_of_calibration():
    first, changes = calibration_tables(calibration(0.2, (-0.1, 0.1)), MODELS, CONDITIONS)
    assert first.name == "semcal_calibration" and first.note.startswith("Alpha: base is not calibrated")
    assert [measure.title for measure in first.measures] == ["SmoothECE", "SmoothECE, calibrated"]
    assert changes.name == "semcal_differences" and tuple(changes.conditions) == ("soft", "hard")


def test_tables_of_agreement_with_people():
    rows = []
    for condition in CONDITIONS:
        names = ("human", "alpha", condition)
        for split, value in (("all", 0.3), ("cool", 0.5)):
            rows.append(metric_row(*names, split, "human_tv", value, floor=0.1, n=40))
        if condition != "base":
            rows.append(metric_row(*names, "all", "human_tv_difference", -0.1, n=40))
    tables = human_tables(metric_frame(rows), MODELS, CONDITIONS)
    assert [table.name for table in tables] == ["human", "human_differences", "human_by_setting"]
    assert [measure.field for measure in tables[0].measures] == ["value", "floor"]
    assert [measure.title for measure in tables[2].measures] == ["TV, default", "TV, cool"]


def test_tables_of_summaries():
    assert selfreflect_tables(metric_frame([]), MODELS, CONDITIONS) == []
    rows = [metric_row("selfreflect", "alpha", name, "all", "selfreflect_sampled", 0.2, n=40) for name in CONDITIONS]
    rows.append(metric_row("selfreflect", "alpha", "soft", "all", "selfreflect_sampled_difference", -0.1, n=40))
    first, changes = selfreflect_tables(metric_frame(rows), MODELS, CONDITIONS)
    assert [measure.title for measure in first.measures] == ["Sampled"] and first.measures[0].lower_is_better
    assert changes.name == "selfreflect_differences"


def test_tables_of_uncertainty_have_the_audits_beside_the_figures():
    names = ("partial_pearson", "partial_pearson_difference", "raw_pearson", "auroc", "auroc_within_length")
    rows = [
        metric_row("uncertainty", "alpha", condition, "all", metric, 0.2, width=0.1)
        for condition in CONDITIONS
        for metric in (*(f"uncertainty_token_entropy_{name}" for name in names), "uncertainty_auroc_length")
    ]
    people, right = uncertainty_tables(metric_frame(rows), MODELS, CONDITIONS)
    assert [row[2] for row in people.rows] == list(CONDITIONS) and people.rows[0][1] == "First-token entropy"
    shown = [dict(zip(people.header, row, strict=True)) for row in people.rows]
    assert shown[0]["Partial"] == "0.20 [0.10, 0.30]" and shown[0]["Change"] == shown[0]["p"] == "—"
    assert shown[1]["Change"] == "+0.20 [+0.10, +0.30]" and shown[1]["Raw"].startswith("0.20")
    assert "of the length alone: 0.20 (Alpha, base), 0.20 (Alpha, soft)" in right.note
    assert right.rows[2][right.header.index("Within lengths")].startswith("0.20")
    assert right.frame["auroc"].tolist() == [0.2] * 3


def test_tables_of_inverse_entropy_have_the_null_and_the_dispersions_beside_the_figures():
    names = ("inv_entropy_nats", "inv_entropy_excess_nats", "inv_input_dispersion", "inv_output_dispersion")
    rows = [
        metric_row("inv_entropy", "alpha", condition, split, metric, 0.2, n=40)
        for condition in CONDITIONS
        for split in ("all", "t14")
        for metric in names
    ]
    for condition in CONDITIONS:
        rows.append(metric_row("inv_entropy", "alpha", condition, "all", "inv_entropy_tsu", 0.5, floor=1 / 24, n=40))
    rows.append(metric_row("inv_entropy", "alpha", "soft", "all", "inv_entropy_tsu_difference", 0.1, n=40))
    means, scores, changes, settings = inverse_entropy_tables(metric_frame(rows), MODELS, CONDITIONS)
    assert [measure.metric for measure in means.measures] == list(names)
    assert [(measure.title, measure.field) for measure in scores.measures] == [
        ("TSU by chance", "floor"),
        ("TSU, Inv-Entropy", "value"),
    ]
    assert tuple(changes.conditions) == ("soft",) and [measure.title for measure in changes.measures] == ["TSU"]
    assert [measure.split for measure in settings.measures] == ["all", "t14"] * 2
    assert "generate.perturbations.settings" in settings.note
    assert inverse_entropy_tables(metric_frame([]), MODELS, CONDITIONS) == []


def test_figures():
    points = pd.DataFrame(
        {
            "model": "alpha",
            "condition": ["base", "base", "soft"],
            "target": ["gold", "gold", "people"],
            "split": "all",
            "size": [4, 3, 2],
            "confidence": [0.5, 0.9, 0.7],
            "frequency": [0.4, 0.6, 0.7],
            "band_low": [0.3, 0.8, 0.6],
            "band_high": [0.7, 1.0, 0.8],
        }
    )
    figure = reliability_diagrams(points, MODELS, CONDITIONS)
    assert [panel.get_title(loc="left") for panel in figure.axes] == ["Alpha: accepted answers", "Alpha: people"]
    classes = pd.DataFrame(
        {
            "condition": ["base", "base", "soft"],
            "prompt_id": "pet",
            "label": ["dog", "$cat$", "dog"],
            "people": [6, 4, 6],
            "answers": [3, 0, 5],
        }
    )
    asked = pd.DataFrame(
        {
            "model": "alpha",
            "condition": ["base", "base", "soft"],
            "classes": [2, 4, 2],
            "people_entropy_nats": [math.log(2), math.log(2), 0.0],
            "semantic_entropy": [0.0, math.log(4), math.log(2)],
        }
    )
    panels = entropies_of_people(asked, MODELS, CONDITIONS).axes
    points = [panel.collections[0].get_offsets().tolist() for panel in panels]
    assert points[0] == [[1, 0], [pytest.approx(0.5), 1]] and points[1] == [[0, 1]] and points[2] == []
    figure = people_bars(classes, CONDITIONS)
    (panel,) = figure.axes
    widths = {bar.get_label(): [patch.get_width() for patch in bar] for bar in panel.containers}
    assert widths == {"people": [0.6, 0.4], "base": [1.0, 0.0], "soft": [1.0, 0.0]}
