"""The report page: one HTML file that opens offline, from evaluations, tables and figures."""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader
from plotly.offline import get_plotlyjs

from pipeline.axes import AXES as EVALUATED
from pipeline.axes.registry import METRICS, SPLIT_TITLES
from pipeline.axes.structured.tables import TESTS_TABLE
from pipeline.config.evaluation import BASELINES, enabled_baselines
from pipeline.config.methods import TARGETS
from pipeline.config.params import Params
from pipeline.config.seeds import SEED_TITLES
from pipeline.core.prompts.structured import Prompt
from pipeline.report.across_axes.frontier import chosen_methods
from pipeline.report.across_axes.model_tests import MODELS_TABLE
from pipeline.report.across_axes.transfer_tests import TESTS_TABLE as TRANSFER_TESTS_TABLE
from pipeline.report.evaluations import AXES, EvaluationKey, Evaluations, display_names, methods_of
from pipeline.report.figures.drawing import condition_colors
from pipeline.report.page.answers import Answer, FirstScreen, calibration_answer, cost_answer, transfer_answer
from pipeline.report.page.explorer import explorer_payload
from pipeline.report.page.explorer_views import LEVELS
from pipeline.report.page.plots import Plot, forest_plots
from pipeline.report.tables.retention import paloma_measures
from pipeline.report.tables.settings import unseen_place
from pipeline.report.tables.table import MISSING, ListTable, Table
from pipeline.report.tables.table_text import shown

TEMPLATES = Path(__file__).parent / "templates"
VIEWS = {
    "density": ("density", "Target, samples and exact law"),
    "cdf": ("CDF", "Cumulative distribution"),
    "pit": ("PIT", "Probability integral transform of the samples"),
}
"""Short and long titles of the explorer's views."""
SYNTHETIC_NOTE = "Nobody was asked these questions: the counts of people's answers are synthetic. "
LONG_TEXT, LONG_LABEL = 44, 24
"""Characters from which a list's column of results, or of labels, is broken into lines."""
PART_TITLES = {"samples": "samples", "exact": "exact law", "pit": "PIT histogram"}
"""What a view of an evaluation may lack, in words."""
OFF = "off"
"""Of an axis that is switched off in the parameters (axes)."""
BASELINE_AXES = {name: [axis for axis, found in EVALUATED.items() if name in found.baselines] for name in BASELINES}
"""Axes that each baseline is evaluated on."""


@dataclass(frozen=True)
class FigureBlock:
    """A picture with its caption."""

    name: str
    caption: str
    path: Path

    @property
    def data_uri(self) -> str:
        """The PNG inlined."""
        return "data:image/png;base64," + base64.b64encode(self.path.read_bytes()).decode()


@dataclass(frozen=True)
class Section:
    """A heading with what it explains and shows; ``anchor`` is the target of links to it.

    ``provenance`` has the provenance files behind it, by path, where they are not the report's evaluations.
    """

    anchor: str
    title: str
    explanation: str
    tables: Sequence[Table | ListTable] = ()
    figures: Sequence[FigureBlock] = ()
    provenance: Mapping[str, dict] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show."""
        return not (self.tables or self.figures)


def commit_text(entry: Mapping) -> str:
    """The commit that an evaluation was made at, with a word if the working tree was changed."""
    git = entry.get("git")
    return "not recorded" if not git else git["commit"][:10] + (" + changes" if git["modified"] else "")


def named_sources(paths: Iterable[str], provenance: Mapping[str, dict]) -> list[tuple[str, str]]:
    """Provenance files, each once, with the commits of their evaluations."""
    return [(path, commit_text(provenance[path])) for path in dict.fromkeys(paths) if path in provenance]


def table_sources(table: Table | ListTable, provenance: Mapping[str, dict], axis: str) -> list[tuple[str, str]]:
    """The evaluations whose numbers a table holds; those of its section's axis where neither cells nor records say."""
    paths = []
    if isinstance(table, Table):
        paths = [cell.provenance for row in table.cells.values() for cell in row.values() if cell is not None]
    elif "axis" in table.frame:
        paths = [path for name in table.frame["axis"].unique() for path in axis_paths(provenance, name)]
    return named_sources(paths, provenance) or named_sources(axis_paths(provenance, axis), provenance)


def axis_paths(provenance: Mapping[str, dict], axis: str) -> list[str]:
    """Provenance files of an axis."""
    return [path for path in provenance if Path(path).parts[-4:-3] == (axis,)]


def coverage_rows(
    models: Mapping[str, str],
    conditions: Sequence[str],
    existing: Iterable[EvaluationKey],
    baselines: Sequence[str],
    switched_on: Sequence[str] = AXES,
    axes: Sequence[str] = AXES,
) -> list[tuple[str, str, list[str]]]:
    """Display name, condition, and for each of ``axes`` "run", "not run", "off", or "" where there is nothing to run.

    ``baselines`` and ``switched_on`` are the baselines and axes that are switched on.
    """
    missing = {axis: MISSING if axis in switched_on else OFF for axis in axes}
    table, evaluated = [], set(existing)
    for model, name in models.items():
        for condition in (*conditions, *BASELINES):
            run = [EvaluationKey(axis, model, condition) in evaluated for axis in axes]
            wanted = axes if condition in conditions else BASELINE_AXES[condition] if condition in baselines else ()
            if wanted or any(run):
                cells = [
                    "run" if ran else missing[axis] if axis in wanted else ""
                    for axis, ran in zip(axes, run, strict=True)
                ]
                table.append((name, condition, cells))
    return table


def embedded_json(value: object) -> str:
    """JSON that can stand in a script element: no "<", and no NaN (ValueError)."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def column_classes(table: ListTable) -> list[str]:
    """Classes of each column of a list: "left" for labels, with "wrap" for long ones, and "text" for long texts."""
    lengths = [max((len(row[place]) for row in table.rows), default=0) for place in range(len(table.header))]
    of_labels = ["left wrap" if length > LONG_LABEL else "left" for length in lengths[: table.labels]]
    return of_labels + ["text" if length > LONG_TEXT else "" for length in lengths[table.labels :]]


def page_templates() -> Environment:
    """The page's templates: ``page.html.jinja``, and ``tables.html.jinja`` with a macro for each kind of table."""
    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True)
    environment.filters["commit"] = commit_text
    environment.tests["list"] = lambda table: isinstance(table, ListTable)
    environment.globals.update(shown=shown, column_classes=column_classes)
    return environment


def report_page(
    params: Params,
    evaluations: Evaluations,
    metrics: pd.DataFrame,
    tests: Mapping[str, pd.DataFrame],
    prompts: Sequence[Prompt],
    sections: Sequence[Section],
    seeds: Sequence[int] = (),
    seed_key: str = "seed",
) -> str:
    """The page as HTML.

    ``tests`` are those against base by axis; ``seeds`` are all seeds, of which the page shows that of the parameters'
    ``seed_key``.

    Raises:
        ValueError: A figure or the explorer's data holds NaN, which JSON has no number for.
    """
    models, conditions, provenance = display_names(params), params.conditions, evaluations.provenance
    explorer = explorer_payload(evaluations, prompts, models, conditions)
    bits_per_byte = paloma_measures(metrics)[1].metric
    margins = {"retention": params.tests.accuracy_margin, "paloma": params.tests.bits_per_byte_margin}
    forest = forest_plots(metrics, models, conditions, bits_per_byte, margins)
    look = {
        "colors": condition_colors(conditions),
        "levels": LEVELS.tolist(),
        "first": conditions,
        "splits": SPLIT_TITLES,
        "parts": PART_TITLES,
        "views": list(VIEWS),
    }
    methods, axes = methods_of(conditions), params.possible_axes
    baselines = enabled_baselines(params.generate)
    return (
        page_templates()
        .get_template("page.html.jinja")
        .render(
            experiment=params.experiment,
            seed=getattr(params, seed_key),
            seed_title=SEED_TITLES[seed_key],
            seeds=seeds,
            methods=methods,
            further_methods=[name for name in methods if name not in TARGETS],
            unseen_place=unseen_place(params),
            answers=_answers(params, metrics, tests, models, sections),
            forest=[_drawn(plot, provenance) for plot in forest],
            explorer=explorer,
            views=VIEWS,
            sections=[_section(section, provenance) for section in sections],
            axes=axes,
            switched_off=[axis for axis in axes if axis not in params.axes],
            coverage=coverage_rows(models, conditions, evaluations.existing, baselines, params.axes, axes),
            invalid=evaluations.invalid.to_dict("records"),
            definitions=[metric for name, metric in METRICS.items() if (metrics["metric"] == name).any()],
            provenance=provenance,
            look=look,
            figures_json=embedded_json({plot.name: plot.figure for plot in forest}),
            look_json=embedded_json(look),
            explorer_json=embedded_json(explorer),
            plotly=get_plotlyjs(),
            style=_template("page.css"),
            charts_script=_template("charts.js"),
            explorer_script=_template("explorer.js"),
        )
    )


def _answers(
    params: Params,
    metrics: pd.DataFrame,
    tests: Mapping[str, pd.DataFrame],
    models: Mapping[str, str],
    sections: Sequence[Section],
) -> list[Answer]:
    frames = {
        table.name: table.frame for section in sections for table in section.tables if isinstance(table, ListTable)
    }
    between, beyond, over = (frames.get(name) for name in (TESTS_TABLE, TRANSFER_TESTS_TABLE, MODELS_TABLE))
    margin = params.tests.wasserstein_margin
    choices = chosen_methods(metrics, models, params.conditions, between, margin)
    given = FirstScreen(
        metrics,
        models,
        params.conditions,
        between,
        beyond,
        over,
        tests,
        {model: choice for model, (choice, _) in choices.items()},
        margin,
    )
    return [calibration_answer(given), cost_answer(given), transfer_answer(given)]


def _template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _drawn(plot: Plot, provenance: Mapping[str, dict]) -> dict[str, Any]:
    return {**vars(plot), "sources": named_sources(plot.sources, provenance)}


def _section(section: Section, provenance: Mapping[str, dict]) -> dict[str, Any]:
    """A section as the template reads it: with its sources, and those of each of its tables."""
    if section.provenance is not None:
        sources = named_sources(section.provenance, section.provenance)
        tables = [(table, sources) for table in section.tables]
    else:
        sources = named_sources(axis_paths(provenance, section.anchor), provenance)
        tables = [(table, table_sources(table, provenance, section.anchor)) for table in section.tables]
    return {**vars(section), "is_empty": section.is_empty, "tables": tables, "sources": sources}
