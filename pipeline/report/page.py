"""The report page: one HTML file that opens offline."""

import base64
import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from jinja2 import Environment, FileSystemLoader

from pipeline.report.tables import CONDITIONS, DASH, MISSING, Table, _best, _interval, _value, note


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


def table_html(table: Table) -> str:
    """An HTML table; each cell's tooltip names its sample size and provenance file."""
    head = "".join(f'<th colspan="3">{html.escape(m.title)}</th>' for m in table.measures)
    second = "".join(f"<th>{condition}</th>" for _ in table.measures for condition in CONDITIONS)
    body = []
    for model, display_name in table.models.items():
        cells = [f"<th>{html.escape(display_name)}</th>"]
        for measure in table.measures:
            for condition in CONDITIONS:
                cells.append(_cell(table, model, measure, condition))
        body.append("<tr>" + "".join(cells) + "</tr>")
    return (
        f"<table><thead><tr><th></th>{head}</tr><tr><th>Model</th>{second}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table><p class='note'>{html.escape(note(table))}</p>"
    )


def _cell(table: Table, model: str, measure, condition: str) -> str:
    cell = table.cells[model][measure.metric, condition]
    if cell is None:
        return f"<td class='missing'>{MISSING}</td>"
    title = html.escape(f"n = {int(cell['n'])}; {cell['provenance']}", quote=True)
    value = _value(cell)
    if value != value:
        return f"<td title='{title}'>{DASH}<small>{int(cell['undefined'])} families undefined</small></td>"
    text = f"{value:.{measure.decimals}f}"
    text = f"<b>{text}</b>" if value == _best(table, model, measure) else text
    return f"<td title='{title}'>{text}<small>{_interval(cell, measure.decimals)}</small></td>"


def render_page(
    *,
    experiment: str,
    tables: Sequence[Table],
    figures: Sequence[FigureBlock],
    headline: str,
    invalid: pd.DataFrame,
    provenance: Mapping[str, dict],
) -> str:
    """Render ``page.html.jinja`` (autoescaped; tables and figures are inserted as built here)."""
    environment = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True)
    return environment.get_template("page.html.jinja").render(
        experiment=experiment,
        headline=headline,
        tables=[(table.caption, table_html(table), table.name) for table in tables],
        figures=figures,
        invalid=invalid.to_dict("records"),
        provenance=provenance,
    )
