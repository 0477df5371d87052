"""The report page: one HTML file that opens offline."""

import base64
import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader
from plotly.offline import get_plotlyjs

from pipeline.config.params import CONDITIONS
from pipeline.metrics.metric import Metric
from pipeline.report.evaluations import AXES
from pipeline.report.figures.drawing import COLORS
from pipeline.report.page.explorer_views import LEVELS
from pipeline.report.page.plots import SYMBOLS, Plot
from pipeline.report.page.summary import SUMMARY_TITLES, Answer, SummaryCell
from pipeline.report.tables.novelty_cases import CaseTable, case_html
from pipeline.report.tables.table import MISSING, ListTable, Measure, Table
from pipeline.report.tables.table_text import shown

TEMPLATES = Path(__file__).parent / "templates"
VIEWS = {"density": "density", "cdf": "CDF", "qq": "QQ", "pit": "PIT", "depth": "KL by depth"}
"""Short titles of the explorer's views."""
VIEW_TITLES = {
    "density": "Target, samples and exact law",
    "cdf": "Cumulative distribution",
    "qq": "Quantiles of the samples against the target's",
    "pit": "Probability integral transform of the samples",
    "depth": "KL by depth within the answer",
}
SPLIT_TITLES = {"unseen": "unseen parameters", "ood": "held-out families"}
LONG_TEXT = 44
"""Characters from which a list's column is broken into lines."""
PART_TITLES = {"samples": "samples", "exact": "exact law", "pit": "PIT histogram", "depth": "KL by depth"}
"""What a view of an evaluation may lack, in words."""


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
    cases: Sequence[CaseTable] = ()
    provenance: Mapping[str, dict] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show."""
        return not (self.tables or self.figures or self.cases)


@singledispatch
def table_html(table: Table) -> str:
    """An HTML table; each cell's tooltip names its sample size, floor and provenance file."""
    if table.conditions_are_rows:
        titles = "".join(f"<th>{html.escape(measure.title)}</th>" for measure in table.measures)
        head = f"<tr><th class='left'>{table.row_title}</th><th class='left'>Condition</th>{titles}</tr>"
    else:
        span = len(table.conditions)
        titles = "".join(f'<th colspan="{span}">{html.escape(measure.title)}</th>' for measure in table.measures)
        names = "".join(f"<th>{condition}</th>" for _ in table.measures for condition in table.conditions)
        head = f"<tr><th></th>{titles}</tr><tr><th class='left'>{table.row_title}</th>{names}</tr>"
    body = []
    for labels, addresses in table.lines():
        cells = [f"<th>{html.escape(label)}</th>" for label in labels]
        cells += [_cell(table, *address) for address in addresses]
        body.append("<tr>" + "".join(cells) + "</tr>")
    note = f"<p class='note'>{html.escape(table.note)}</p>"
    return f"<table><thead>{head}</thead><tbody>{''.join(body)}</tbody></table>{note}"


@table_html.register
def _(table: ListTable) -> str:
    lengths = [max((len(row[place]) for row in table.rows), default=0) for place in range(len(table.header))]
    sides = [
        "left" if place < table.labels else "text" if length > LONG_TEXT else "" for place, length in enumerate(lengths)
    ]
    head = "".join(
        f"<th class='{side}'>{html.escape(title)}</th>" for side, title in zip(sides, table.header, strict=True)
    )
    body = [
        "".join(f"<td class='{side}'>{html.escape(text)}</td>" for side, text in zip(sides, row, strict=True))
        for row in table.rows
    ]
    rows = "".join(f"<tr>{row}</tr>" for row in body)
    note = f"<p class='note'>{html.escape(table.note)}</p>"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{note}"


def _cell(table: Table, model: str, measure: Measure, condition: str) -> str:
    cell, text = table.cell(model, measure, condition), shown(table, model, measure, condition)
    if cell is None:
        return f"<td class='missing'>{MISSING}</td>"
    floor = f"; perfect sampler {cell.floor:.4f}" if cell.floor == cell.floor else ""
    title = html.escape(f"n = {cell.n}{floor}; {cell.provenance}", quote=True)
    number = f"<b>{text.text}</b>" if text.best else text.text
    return f"<td title='{title}'>{number}<small>{html.escape(text.detail)}</small></td>"


@dataclass(frozen=True)
class Sources:
    """Where a table's or figure's numbers come from.

    Attributes:
        entries: Provenance file, commit and sample sizes ("" where not known) of each evaluation.
        commits: The commits, each once.
    """

    entries: Sequence[tuple[str, str, str]]
    commits: Sequence[str]


def commit_text(entry: Mapping) -> str:
    """The commit that an evaluation was made at, with a word if the working tree was changed."""
    git = entry.get("git")
    return "not recorded" if not git else git["commit"][:10] + (" + changes" if git["modified"] else "")


def named_sources(paths: Mapping[str, str], provenance: Mapping[str, dict]) -> Sources | None:
    """The sources of provenance files (path -> sample sizes); None where there are none."""
    entries = [(path, commit_text(provenance[path]), n) for path, n in paths.items() if path in provenance]
    return Sources(entries, list(dict.fromkeys(commit for _, commit, _ in entries))) if entries else None


def table_sources(table: Table | ListTable, provenance: Mapping[str, dict], axis: str) -> Sources | None:
    """The evaluations whose numbers a table holds; those of its axis where cells do not say.

    Args:
        table: The table.
        provenance: Content of each provenance file by path, ``.../AXIS/MODEL/CONDITION/provenance.json``.
        axis: Axis of the page's section.
    """
    sizes: dict[str, set[int]] = {}
    for row in table.cells.values() if isinstance(table, Table) else []:
        for cell in row.values():
            if cell is not None:
                sizes.setdefault(cell.provenance, set()).add(cell.n)
    named = {path: _size_range(found) for path, found in sizes.items() if path in provenance}
    return named_sources(named or axis_paths(provenance, axis), provenance)


def _size_range(sizes: set[int]) -> str:
    low, high = min(sizes), max(sizes)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def axis_paths(provenance: Mapping[str, dict], axis: str) -> dict[str, str]:
    """Provenance files of an axis, without sample sizes."""
    return {path: "" for path in provenance if Path(path).parts[-4:-3] == (axis,)}


@dataclass(frozen=True)
class FirstScreen:
    """What the page opens with: answers in words, forest plots, and one row per model and condition."""

    answers: Sequence[Answer]
    plots: Sequence[Plot]
    rows: Sequence[tuple[str, str, Sequence[SummaryCell]]]


def embedded_json(value: object) -> str:
    """JSON that can stand in a script element: no "<", and no NaN (ValueError)."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def render_page(
    *,
    experiment: str,
    sections: Sequence[Section],
    headline: str,
    invalid: pd.DataFrame,
    provenance: Mapping[str, dict],
    first: FirstScreen,
    explorer: Mapping[str, Any],
    coverage: Sequence[tuple[str, str, Sequence[str]]],
    definitions: Sequence[Metric],
    ablations: Sequence[Plot] = (),
    switched_off: Sequence[str] = (),
    seed: int = 0,
    seeds: Sequence[int] = (),
) -> str:
    """Render ``page.html.jinja`` (autoescaped; tables, scripts and data are inserted as built here).

    Args:
        experiment: Name of the experiment; "demo" is said to be one.
        sections: Tables, figures and cases by axis.
        headline: All axes in sentences.
        invalid: Columns axis, model, condition, split, reason, count.
        provenance: Content of each provenance file by path.
        first: The first screen.
        explorer: ``explorer_payload``.
        coverage: Display name, condition, and "run", "not run" or "off" (switched off) for each of AXES.
        definitions: The metrics that the page has.
        ablations: Interactive figures of the ablations.
        switched_off: Axes that the parameters leave out.
        seed: Training seed of all but the tables over seeds.
        seeds: All training seeds that there are.

    Raises:
        ValueError: A figure or the explorer's data holds NaN, which JSON has no number for.
    """
    further = {path: content for section in sections for path, content in (section.provenance or {}).items()}
    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True)
    environment.filters["commit"] = commit_text
    return environment.get_template("page.html.jinja").render(
        experiment=experiment,
        headline=headline,
        answers=first.answers,
        forest=[_drawn(plot, provenance) for plot in first.plots],
        summary_titles=SUMMARY_TITLES,
        summary_rows=first.rows,
        sections=[_section(section, provenance) for section in sections],
        axes=AXES,
        coverage=coverage,
        switched_off=switched_off,
        seed=seed,
        seeds=seeds,
        ablations=[_drawn(plot, {**provenance, **further}) for plot in ablations],
        definitions=definitions,
        invalid=invalid.to_dict("records"),
        provenance=provenance,
        explorer=explorer,
        **_scripts([*first.plots, *ablations], explorer),
    )


def _scripts(plots: Sequence[Plot], explorer: Mapping[str, Any]) -> dict[str, Any]:
    """Style, scripts and data of the interactive parts, by their names in the template."""
    look = {
        "colors": COLORS,
        "symbols": SYMBOLS,
        "levels": LEVELS.tolist(),
        "first": CONDITIONS,
        "splits": SPLIT_TITLES,
        "parts": PART_TITLES,
    }
    return {
        "look": look,
        "views": VIEWS,
        "view_titles": VIEW_TITLES,
        "figures_json": embedded_json({plot.name: plot.figure for plot in plots}),
        "look_json": embedded_json(look),
        "explorer_json": embedded_json(explorer),
        "plotly": get_plotlyjs(),
        "style": _template("page.css"),
        "charts_script": _template("charts.js"),
        "explorer_script": _template("explorer.js"),
    }


def _template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _drawn(plot: Plot, provenance: Mapping[str, dict]) -> dict[str, Any]:
    sources = named_sources(dict.fromkeys(plot.sources, ""), provenance)
    return {"name": plot.name, "title": plot.title, "note": plot.note, "sources": sources}


def _section(section: Section, provenance: Mapping[str, dict]) -> dict[str, Any]:
    """A section as the template reads it."""
    own = section.provenance
    sources = named_sources(
        axis_paths(provenance, section.anchor) if own is None else dict.fromkeys(own, ""),
        provenance if own is None else own,
    )
    return {
        "anchor": section.anchor,
        "title": section.title,
        "explanation": section.explanation,
        "is_empty": section.is_empty,
        "tables": [
            (
                table.caption,
                table_html(table),
                table.name,
                sources if own is not None else table_sources(table, provenance, section.anchor),
            )
            for table in section.tables
        ],
        "figures": section.figures,
        "cases": [(case.caption, case_html(case), case.name) for case in section.cases],
        "sources": sources,
    }
