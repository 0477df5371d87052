"""The report page: one HTML file that opens offline, from evaluations, tables and figures."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader

from pipeline.axes.registry import METRICS, SPLIT_TITLES
from pipeline.config.seeds import SEED_TITLES
from pipeline.config.training import TARGETS
from pipeline.report.evaluations import ReportContext
from pipeline.report.figures.drawing import condition_colors
from pipeline.report.page.explorer import explorer_payload
from pipeline.report.result import Result
from pipeline.report.settings import unseen_place
from pipeline.report.table import FAILED, MISSING, Table

TEMPLATES = Path(__file__).parent / "templates"
LONG_TEXT, LONG_LABEL = 44, 24  # characters from which a column of results, or of labels, is broken into lines


class FigureBlock(NamedTuple):
    """A picture with its caption."""

    name: str
    caption: str
    path: Path

    @property
    def data_uri(self) -> str:
        return "data:image/png;base64," + base64.b64encode(self.path.read_bytes()).decode()


@dataclass(frozen=True)
class Section:
    """A heading with what it explains and shows; ``anchor`` is the target of links to it."""

    anchor: str
    title: str
    explanation: str
    tables: Sequence[Table] = ()
    figures: Sequence[FigureBlock] = ()


def embedded_json(value: object) -> str:
    """JSON that can stand in a script element: no "<", and no NaN (ValueError)."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def column_classes(table: Table) -> list[str]:
    """Classes of each column: "left" for labels, with "wrap" for long ones, and "text" for long texts."""
    lengths = [max((len(row[place].text) for row in table.cells), default=0) for place in range(len(table.header))]
    of_labels = ["left wrap" if length > LONG_LABEL else "left" for length in lengths[: table.labels]]
    return of_labels + ["text" if length > LONG_TEXT else "" for length in lengths[table.labels :]]


def report_page(
    context: ReportContext,
    sections: Sequence[Section],
    result: Result,
    missing: Sequence[str],
    provenance: Mapping[str, Mapping],
    seeds: Sequence[int] = (),
    seed_key: str = "seed",
) -> str:
    """The page as HTML; of all ``seeds`` it shows that of the parameters' ``seed_key``."""
    params = context.params
    explorer = explorer_payload(context.evaluations, context.prompts, context.names, context.conditions)
    look = {"colors": condition_colors(context.conditions), "splits": SPLIT_TITLES}
    shown = set(context.metrics["metric"])
    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True)
    return environment.get_template("page.html.jinja").render(
        column_classes=column_classes,
        absent=(MISSING, FAILED),
        experiment=params.experiment,
        seed=getattr(params, seed_key),
        seed_title=SEED_TITLES[seed_key],
        seeds=seeds,
        methods=context.methods,
        further_methods=[name for name in context.methods if name not in TARGETS],
        unseen_place=unseen_place(params),
        result=result,
        explorer=explorer,
        sections=sections,
        missing=missing,
        invalid=context.evaluations.invalid.to_dict("records"),
        definitions=[metric for name, metric in METRICS.items() if name in shown],
        provenance=provenance,
        data_json=embedded_json({**explorer, **look}),
        page_css=(TEMPLATES / "page.css").read_text(),
        page_js=(TEMPLATES / "page.js").read_text(),
    )
