"""The page's content from the evaluations: first screen, explorer, and what was run."""

from collections.abc import Mapping, Sequence

import pandas as pd

from pipeline.config.evaluation import BASELINES, enabled_baselines
from pipeline.config.params import CONDITIONS, Params
from pipeline.core.prompts.structured import Prompt
from pipeline.metrics.registry import METRICS
from pipeline.report.evaluations import AXES, Evaluations, display_names
from pipeline.report.page.explorer import explorer_payload
from pipeline.report.page.page import FirstScreen, Section, render_page
from pipeline.report.page.plots import Plot, forest_plots
from pipeline.report.page.summary import (
    Aggregates,
    calibration_answer,
    cost_answer,
    headline,
    summary_rows,
)
from pipeline.report.tables.retention import paloma_measures
from pipeline.report.tables.structured import TESTS_TABLE
from pipeline.report.tables.table import MISSING

OFF = "off"
"""Of an axis that is switched off in the parameters (axes)."""
BASELINE_AXES = {name: ("structured",) if name == "constrained" else ("structured", "open") for name in BASELINES}
"""Axes that each baseline is evaluated on."""


def first_screen(
    config: Params,
    metrics: pd.DataFrame,
    tests: Mapping[str, pd.DataFrame],
    models: Mapping[str, str],
    comparisons: pd.DataFrame | None = None,
) -> FirstScreen:
    """Answers, forest plots and the table of the first screen; plots and table are empty without any evaluation.

    Args:
        config: The parameters.
        metrics: The tidy metrics table.
        tests: Axis -> tests against base.
        models: Model name -> display name.
        comparisons: Paired tests between conditions of structured sampling.
    """
    bits_per_byte = paloma_measures(metrics)[1].metric
    rows = Aggregates(metrics, models)
    margins = {"retention": config.tests.accuracy_margin, "paloma": config.tests.bits_per_byte_margin}
    return FirstScreen(
        [calibration_answer(rows, comparisons), cost_answer(rows, tests, bits_per_byte)],
        forest_plots(metrics, models, (*CONDITIONS, *BASELINES), bits_per_byte, margins),
        summary_rows(rows, tests, bits_per_byte) if len(metrics) else [],
    )


def coverage_rows(
    models: Mapping[str, str],
    existing: set[tuple[str, str, str]],
    baselines: Sequence[str],
    switched_on: Sequence[str] = AXES,
) -> list[tuple[str, str, list[str]]]:
    """Display name, condition, and for each of AXES "run", "not run", "off", or "" where there is nothing to run.

    Args:
        models: Model name -> display name.
        existing: (axis, model, condition) of all evaluations.
        baselines: Baselines that are switched on.
        switched_on: Axes that are.
    """
    missing = {axis: MISSING if axis in switched_on else OFF for axis in AXES}
    table = []
    for model, name in models.items():
        for condition in (*CONDITIONS, *BASELINES):
            run = [(axis, model, condition) in existing for axis in AXES]
            wanted = AXES if condition in CONDITIONS else BASELINE_AXES[condition] if condition in baselines else ()
            if wanted or any(run):
                cells = [
                    "run" if ran else missing[axis] if axis in wanted else ""
                    for axis, ran in zip(AXES, run, strict=True)
                ]
                table.append((name, condition, cells))
    return table


def report_page(
    config: Params,
    evaluations: Evaluations,
    metrics: pd.DataFrame,
    tests: Mapping[str, pd.DataFrame],
    prompts: Sequence[Prompt],
    sections: Sequence[Section],
    ablations: Sequence[Plot] = (),
    seeds: Sequence[int] = (),
) -> str:
    """The page as HTML.

    Args:
        config: The parameters.
        evaluations: What there is.
        metrics: Its metrics with one name per variant.
        tests: Axis -> tests against base.
        prompts: Structured prompts of the evaluated splits.
        sections: Tables, figures and cases by axis.
        ablations: Interactive figures of the ablations.
        seeds: All training seeds; the page is of that of the parameters.
    """
    models = display_names(config)
    compared = [table.frame for section in sections for table in section.tables if table.name == TESTS_TABLE]
    return render_page(
        experiment=config.experiment,
        sections=sections,
        headline=headline(metrics, tests),
        invalid=evaluations.invalid,
        provenance=evaluations.provenance,
        first=first_screen(config, metrics, tests, models, compared[0] if compared else None),
        explorer=explorer_payload(evaluations, prompts, models),
        coverage=coverage_rows(models, evaluations.existing, enabled_baselines(config.generate), config.axes),
        switched_off=[axis for axis in AXES if axis not in config.axes],
        definitions=[metric for name, metric in METRICS.items() if (metrics["metric"] == name).any()],
        ablations=ablations,
        seed=config.seed,
        seeds=seeds,
    )
