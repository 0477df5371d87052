"""A table as CSV, Markdown and LaTeX, with any text made safe for them."""

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from pipeline.report.evaluations import EvaluationKey
from pipeline.report.tables.table import (
    DASH,
    FAILED,
    MISSING,
    ListTable,
    Measure,
    Table,
    interval_text,
    number_text,
)

_MARKDOWN = str.maketrans({character: f"\\{character}" for character in "\\`*_[]<>|~$&"})
_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "{": r"\{",
        "}": r"\}",
        "&": r"\&",
        "%": r"\%",
        "_": r"\_",
        "#": r"\#",
        "$": r"\$",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "`": r"\textasciigrave{}",
        "[": "{[}",
        "]": "{]}",
        "*": "{*}",
        "—": r"\textemdash{}",
        "…": r"\textellipsis{}",
        "−": r"\textminus{}",
        "×": r"\texttimes{}",
        "±": r"\textpm{}",
        "∞": r"\ensuremath{\infty}",
        "≤": r"\ensuremath{\leq}",
        "≥": r"\ensuremath{\geq}",
    }
)
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
LONGEST_TEXT = 30
"""Characters from which on a LaTeX column is not made wider."""
SMALL_LINE = 96
"""Characters that a line of 345pt (the article class) holds at scriptsize; longer rows are set in tiny."""
NUMBERS = ("value", "n", "ci_low", "ci_high", "floor", "ratio", "undefined", "provenance")
"""Columns of a table's file that are of a cell."""
PACKAGES = ("array", "booktabs", "longtable")
PREAMBLE = r"""% All tables of the report. \input{NAME} takes one into a document of your own, with the packages below.
\documentclass{article}
\usepackage[T1]{fontenc}
\IfFileExists{lmodern.sty}{\usepackage{lmodern}}{}
\usepackage[margin=1in]{geometry}
"""


def one_line(text: str) -> str:
    """The text with each run of white space as one space; what cannot be printed becomes U+FFFD.

    Control characters (category Cc) and lone surrogates (Cs) cannot be printed, the latter
    not even encoded.
    """
    collapsed = " ".join(text.split())
    return "".join(REPLACEMENT if unicodedata.category(c) in ("Cc", "Cs") else c for c in collapsed)


def shorten(text: str, limit: int) -> str:
    """One line of at most ``limit`` characters, cut after a word and ended by "…" where it was longer.

    A first word longer than the limit is cut inside.
    """
    line = one_line(text)
    if len(line) <= limit:
        return line
    kept = line[: limit - 1]
    if line[limit - 1] != " " and " " in kept:
        kept = kept[: kept.rindex(" ")]
    return kept.rstrip() + "…"


def escape_markdown(text: str) -> str:
    """One line that a Markdown table cell shows as it is."""
    return one_line(text).translate(_MARKDOWN)


def escape_latex(text: str) -> str:
    """One line that LaTeX typesets as it is; letters beyond Latin need XeLaTeX or LuaLaTeX and a font.

    Brackets and stars are in braces, because a line break reads them as its arguments, and
    so are the gaps between hyphens, which would join into dashes.
    """
    escaped = one_line(text).translate(_LATEX)
    # Pairs found from the left leave every other gap; the second pass finds those.
    return escaped.replace("--", "-{}-").replace("--", "-{}-")


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
        text = FAILED if EvaluationKey(measure.axis, model, condition) in table.failed else MISSING
        return Shown(text, status=text)
    if measure.field == "floor":
        return Shown(number_text(cell.floor, measure.decimals))
    if measure.field == "n":
        return Shown(f"{cell.n:,}")
    if not math.isfinite(cell.value):
        return Shown(DASH, f"({cell.remark})", status="undefined")
    if measure.field == "ratio":
        return Shown(number_text(cell.ratio, measure.decimals), f"({cell.floor:.3g})" if cell.floor > 0 else "")
    interval = interval_text(cell.ci_low, cell.ci_high, measure.decimals, sign="") if math.isfinite(cell.ci_low) else ""
    return Shown(number_text(cell.value, measure.decimals), interval, cell.value == table.best(model, measure))


def to_frame(table: Table | ListTable) -> pd.DataFrame:
    """Full precision: one row per model, measure and condition, or a list's own records."""
    if isinstance(table, ListTable):
        return table.frame
    last_titles = [title.lower() for title in table.last_titles]
    rows = []
    for model, display_name in table.models.items():
        for measure in (measure for measure in table.measures if measure.field == "value"):
            for condition in table.conditions:
                cell = table.cell(model, measure, condition)
                rows.append(
                    {
                        table.row_title.lower(): model,
                        "display_name": display_name,
                        "axis": measure.axis,
                        "split": measure.split,
                        "metric": measure.metric,
                        "condition": condition,
                        "status": shown(table, model, measure, condition).status,
                        **{column: None if cell is None else getattr(cell, column) for column in NUMBERS},
                        **dict(zip(last_titles, table.last_texts(model, condition), strict=True)),
                    }
                )
    return pd.DataFrame(rows)


def _grid(table: Table | ListTable) -> tuple[list[str], list[list[Shown]]]:
    """Column titles, and what the cells of each row show."""
    if isinstance(table, ListTable):
        return list(table.header), [[Shown(text) for text in row] for row in table.rows]
    if table.conditions_are_rows:
        header = [table.row_title, "Condition", *(measure.title for measure in table.measures), *table.last_titles]
    else:
        header = [table.row_title, *(f"{m.title} {name}" for m in table.measures for name in table.conditions)]
    rows = []
    for labels, addresses in table.lines():
        model, _, condition = addresses[0]
        cells = [shown(table, *address) for address in addresses]
        rows.append([*map(Shown, labels), *cells, *map(Shown, table.last_texts(model, condition))])
    return header, rows


def to_markdown(table: Table | ListTable) -> str:
    """A Markdown table with 95% intervals beside the values, and the note."""

    def text(cell: Shown) -> str:
        escaped = escape_markdown(cell.text)
        return f"{f'**{escaped}**' if cell.best else escaped} {cell.detail}".strip()

    header, rows = _grid(table)
    lines = markdown_table([escape_markdown(title) for title in header], [[text(cell) for cell in row] for row in rows])
    return f"{table.caption}\n\n{lines}\n\n{table.note}\n"


def markdown_table(header: list[str], rows: list[list[str]]) -> str:
    """Lines of a Markdown table from cells that are escaped already."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def to_latex(table: Table | ListTable) -> str:
    """A booktabs longtable as wide as the line; best values are bold, intervals stand beside their values."""
    return latex_table(table.name, table.caption, *_grid(table), table.note)


def latex_table(name: str, caption: str, header: Sequence[str], rows: Sequence[Sequence[Shown]], note: str) -> str:
    r"""A longtable of paragraphs whose widths are in proportion to the longest text of each column.

    Tables of the paper keep its numbers, also in ``\ref``; others are numbered A1, A2, ...
    """

    def text(cell: Shown) -> str:
        escaped = escape_latex(cell.text)
        value = rf"\textbf{{{escaped}}}" if cell.best else escaped
        return f"{value} {escape_latex(cell.detail)}".strip()

    found = re.fullmatch(r"Table (\d+(?: \([a-z]\))?)\. (.*)", caption, re.DOTALL)
    number, title = found.groups() if found else (r"A\arabic{table}", caption)
    # LaTeX counts on where its number is not shown: A1, A2, ... would have gaps.
    undo = "\\addtocounter{table}{-1}\n" if found else ""
    texts = [[f"{cell.text} {cell.detail}".strip() for cell in row] for row in rows]
    lengths = [min(max(map(len, column)), LONGEST_TEXT) for column in zip(header, *texts, strict=True)]
    total = sum(lengths)
    columns = [
        rf">{{\raggedright\arraybackslash}}p{{\dimexpr{length / total:.4f}\linewidth-2\tabcolsep\relax}}"
        for length in lengths
    ]
    body = pd.DataFrame([[text(cell) for cell in row] for row in rows], columns=range(len(header))).to_latex(
        index=False,
        header=[escape_latex(title) for title in header],
        escape=False,
        longtable=True,
        column_format="".join(columns),
        caption=escape_latex(title),
        label=f"tab:{name}",
    )
    size = "scriptsize" if total <= SMALL_LINE else "tiny"
    return (
        rf"{{\{size}\setlength{{\tabcolsep}}{{3pt}}\renewcommand{{\thetable}}{{{number}}}" + f"\n{undo}{body}}}\n"
        rf"{{\footnotesize {escape_latex(note)}\par}}" + "\n"
    )


def latex_document(names: Iterable[str]) -> str:
    """A document of its own that reads ``NAME.tex`` of all tables beside it, in this order."""
    packages = "".join(f"\\usepackage{{{name}}}\n" for name in PACKAGES)
    body = "".join(f"\\input{{{name}}}\n\\clearpage\n" for name in names)
    return f"{PREAMBLE}{packages}\\begin{{document}}\n{body}\\end{{document}}\n"


def write_table_texts(table: Table | ListTable, directory: Path) -> None:
    """Write ``NAME.csv``, ``NAME.md`` and ``NAME.tex`` into a directory."""
    to_frame(table).to_csv(directory / f"{table.name}.csv", index=False, encoding="utf-8")
    (directory / f"{table.name}.md").write_text(to_markdown(table), encoding="utf-8")
    (directory / f"{table.name}.tex").write_text(to_latex(table), encoding="utf-8")
