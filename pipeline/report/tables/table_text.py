"""A table as CSV, Markdown and LaTeX."""

import math
from dataclasses import dataclass
from functools import singledispatch
from pathlib import Path

import pandas as pd

from pipeline.report.tables.escaping import escape_latex, escape_markdown
from pipeline.report.tables.latex_layout import column_types, latex_caption
from pipeline.report.tables.table import DASH, MISSING, ListTable, Measure, Table


@dataclass(frozen=True)
class Shown:
    """What a cell shows: the number (or why there is none), its interval or remark, and whether it is the best."""

    text: str
    detail: str = ""
    best: bool = False
    status: str = "ok"


def shown(table: Table, model: str, measure: Measure, condition: str) -> Shown:
    """The text of one cell."""
    cell = table.cell(model, measure, condition)
    if cell is None:
        return Shown(MISSING, status=MISSING)
    if measure.field == "floor":
        return Shown(f"{cell.floor:.{measure.decimals}f}" if math.isfinite(cell.floor) else DASH)
    if measure.field == "n":
        return Shown(f"{cell.n:,}")
    if not math.isfinite(cell.value):
        return Shown(DASH, cell.remark, status="undefined")
    if measure.field == "ratio":
        text = f"{cell.ratio:.{measure.decimals}f}" if math.isfinite(cell.ratio) else DASH
        return Shown(text, f"({cell.floor:.3g})" if math.isfinite(cell.ratio) else "")
    interval = ""
    if math.isfinite(cell.ci_low):
        interval = f"[{cell.ci_low:.{measure.decimals}f}, {cell.ci_high:.{measure.decimals}f}]"
    return Shown(f"{cell.value:.{measure.decimals}f}", interval, cell.value == table.best(model, measure))


@singledispatch
def to_frame(table: Table) -> pd.DataFrame:
    """Full precision: one row per model, measure and condition, with n, interval, floor and the ratio to it."""
    rows, row_column = [], table.row_title.lower()
    for model, display_name in table.models.items():
        for measure in (measure for measure in table.measures if measure.field == "value"):
            for condition in table.conditions:
                cell = table.cell(model, measure, condition)
                rows.append(
                    {
                        row_column: model,
                        "display_name": display_name,
                        "axis": measure.axis,
                        "split": measure.split,
                        "metric": measure.metric,
                        "condition": condition,
                        "status": shown(table, model, measure, condition).status,
                        **{
                            column: None if cell is None else getattr(cell, column)
                            for column in (
                                "value",
                                "n",
                                "ci_low",
                                "ci_high",
                                "floor",
                                "ratio",
                                "undefined",
                                "provenance",
                            )
                        },
                    }
                )
    return pd.DataFrame(rows)


@to_frame.register
def _(table: ListTable) -> pd.DataFrame:
    return table.frame


@singledispatch
def to_markdown(table: Table) -> str:
    """A Markdown table with 95% intervals beside the values, and the note."""
    if table.conditions_are_rows:
        header = [table.row_title, "Condition", *(measure.title for measure in table.measures)]
    else:
        header = [
            table.row_title,
            *(f"{m.title} {condition}" for m in table.measures for condition in table.conditions),
        ]
    rows = []
    for labels, addresses in table.lines():
        row = [escape_markdown(label) for label in labels]
        for address in addresses:
            cell = shown(table, *address)
            if cell.status == "undefined":
                row.append(f"{cell.text} ({cell.detail})")
            else:
                row.append(f"{f'**{cell.text}**' if cell.best else cell.text} {cell.detail}".strip())
        rows.append(row)
    return f"{table.caption}\n\n{markdown_table(header, rows)}\n\n{table.note}\n"


@to_markdown.register
def _(table: ListTable) -> str:
    rows = [[escape_markdown(text) for text in row] for row in table.rows]
    header = [escape_markdown(title) for title in table.header]
    return f"{table.caption}\n\n{markdown_table(header, rows)}\n\n{table.note}\n"


def markdown_table(header: list[str], rows: list[list[str]]) -> str:
    """Lines of a Markdown table from cells that are escaped already."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def _latex_header(table: Table) -> tuple[str, list[str]]:
    """Column specification and header lines."""
    if table.conditions_are_rows:
        titles = [table.row_title, "Condition", *(escape_latex(measure.title) for measure in table.measures)]
        return "ll" + "c" * len(table.measures), [" & ".join(titles) + r" \\"]
    groups, width = len(table.measures), len(table.conditions)
    titles = [rf"\multicolumn{{{width}}}{{c}}{{{escape_latex(measure.title)}}}" for measure in table.measures]
    rules = [rf"\cmidrule(lr){{{2 + width * i}-{1 + width * (i + 1)}}}" for i in range(groups)]
    names = [condition.capitalize() for _ in table.measures for condition in table.conditions]
    header = [" & ".join(["", *titles]) + r" \\", " ".join(rules), " & ".join([table.row_title, *names]) + r" \\"]
    return "l" + "c" * (groups * width), header


@singledispatch
def to_latex(table: Table) -> str:
    """A booktabs table no wider than the line; bold best, dashes where undefined or not run, intervals below."""
    columns, header = _latex_header(table)
    number, caption = latex_caption(table.caption)
    lines = [r"\begin{table}", *number, r"\centering", caption]
    lines += [rf"\label{{tab:{table.name}}}", r"\begin{adjustbox}{max width=\linewidth}"]
    lines += [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", *header, r"\midrule"]
    for labels, addresses in table.lines():
        cells = [shown(table, *address) for address in addresses]
        texts = ["---" if cell.status != "ok" or cell.text == DASH else cell.text for cell in cells]
        values = [rf"\textbf{{{text}}}" if cell.best else text for cell, text in zip(cells, texts, strict=True)]
        lines.append(" & ".join([*map(escape_latex, labels), *values]) + r" \\")
        details = [cell.detail if cell.status == "ok" else "" for cell in cells]
        if any(details):
            small = [rf"\scriptsize {escape_latex(detail)}" if detail else "" for detail in details]
            lines.append(" & ".join([*("" for _ in labels), *small]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{adjustbox}"]
    return "\n".join([*lines, rf"\par\smallskip\footnotesize {escape_latex(table.note)}", r"\end{table}"]) + "\n"


@to_latex.register
def _(table: ListTable) -> str:
    # Lists grow past a page, which a table environment cannot.
    size, columns = column_types(table.header, table.rows, table.labels)
    number, caption = latex_caption(table.caption)
    lines = [rf"{{\{size}\setlength{{\tabcolsep}}{{3pt}}", *number]
    lines += [rf"\begin{{longtable}}{{{''.join(columns)}}}", caption, rf"\label{{tab:{table.name}}} \\"]
    lines += [r"\toprule", " & ".join(map(escape_latex, table.header)) + r" \\", r"\midrule", r"\endhead"]
    lines += [" & ".join(map(escape_latex, row)) + r" \\" for row in table.rows]
    lines += [r"\bottomrule", r"\end{longtable}", r"}", rf"{{\footnotesize {escape_latex(table.note)}\par}}"]
    return "\n".join(lines) + "\n"


def write_table_texts(table: Table | ListTable, directory: Path) -> None:
    """Write ``NAME.csv``, ``NAME.md`` and ``NAME.tex`` into a directory."""
    to_frame(table).to_csv(directory / f"{table.name}.csv", index=False, encoding="utf-8")
    (directory / f"{table.name}.md").write_text(to_markdown(table), encoding="utf-8")
    (directory / f"{table.name}.tex").write_text(to_latex(table), encoding="utf-8")
