"""A table as CSV, Markdown and LaTeX, with any text made safe for them."""

import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from pipeline.report.table import Table

_MARKDOWN = str.maketrans({character: f"\\{character}" for character in "\\`*_[]<>|~$&"})
_LATEX = str.maketrans(
    {character: f"\\{character}" for character in "{}&%_#$"}
    | {character: f"{{{character}}}" for character in "[]*"}
    | {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "`": r"\textasciigrave{}",
        "−": r"\textminus{}",
        "×": r"\texttimes{}",
        "±": r"\textpm{}",
        "∞": r"\ensuremath{\infty}",
        "≤": r"\ensuremath{\leq}",
        "≥": r"\ensuremath{\geq}",
    }
)
LONGEST_TEXT = 30  # characters from which on a LaTeX column is not made wider
PREAMBLE = r"""% All tables of the report. \input{NAME} takes one into a document of your own, with the packages below.
\documentclass{article}
\usepackage[T1]{fontenc}
\usepackage[margin=1in]{geometry}
\usepackage{array}
\usepackage{booktabs}
\usepackage{longtable}
\begin{document}
"""


def one_line(text: str) -> str:
    """The text with each run of white space as one space; what cannot be printed or encoded becomes U+FFFD."""
    collapsed = " ".join(text.split())
    return "".join("\N{REPLACEMENT CHARACTER}" if unicodedata.category(c) in ("Cc", "Cs") else c for c in collapsed)


def shorten(text: str, limit: int) -> str:
    """One line of at most ``limit`` characters, cut after a word and ended by "…" where it was longer."""
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
    """One line that LaTeX typesets as it is: brackets and stars in braces, because a line break would read them."""
    return one_line(text).translate(_LATEX)


def to_markdown(table: Table) -> str:
    """A Markdown table with 95% intervals beside the values, and the note."""
    header = [escape_markdown(title) for title in table.header]
    rows = [[f"{escape_markdown(cell.text)} {cell.detail}".strip() for cell in row] for row in table.cells]
    first, *others = ["| " + " | ".join(row) + " |" for row in (header, *rows)]
    lines = "\n".join([first, "|" + "---|" * len(header), *others])
    return f"{escape_markdown(table.caption)}\n\n{lines}\n\n{table.note}\n"


def to_latex(table: Table) -> str:
    r"""A booktabs longtable as wide as the line, its columns in proportion to their longest text.

    Tables of the paper keep its numbers, also in ``\ref``; others are numbered A1, A2, ...
    """
    found = re.fullmatch(r"Table (\d+(?: \([a-z]\))?)\. (.*)", table.caption, re.DOTALL)
    number, title = found.groups() if found else (r"A\arabic{table}", table.caption)
    # LaTeX counts on where its number is not shown: A1, A2, ... would have gaps.
    undo = "\\addtocounter{table}{-1}\n" if found else ""
    texts = [[f"{cell.text} {cell.detail}".strip() for cell in row] for row in table.cells]
    lengths = [min(max(map(len, column)), LONGEST_TEXT) for column in zip(table.header, *texts, strict=True)]
    columns = [
        rf">{{\raggedright\arraybackslash}}p{{\dimexpr{length / sum(lengths):.4f}\linewidth-2\tabcolsep\relax}}"
        for length in lengths
    ]
    body = pd.DataFrame([[escape_latex(text) for text in row] for row in texts]).to_latex(
        index=False,
        header=[escape_latex(title) for title in table.header],
        escape=False,
        longtable=True,
        column_format="".join(columns),
        caption=escape_latex(title),
        label=f"tab:{table.name}",
    )
    return (
        rf"{{\tiny\setlength{{\tabcolsep}}{{3pt}}\renewcommand{{\thetable}}{{{number}}}" + f"\n{undo}{body}}}\n"
        rf"{{\footnotesize {escape_latex(table.note)}\par}}" + "\n"
    )


def latex_document(names: Iterable[str]) -> str:
    """A document of its own that reads ``NAME.tex`` of all tables beside it, in this order."""
    body = "".join(f"\\input{{{name}}}\n\\clearpage\n" for name in names)
    return f"{PREAMBLE}{body}\\end{{document}}\n"


def write_table_texts(table: Table, directory: Path) -> None:
    """Write ``NAME.csv``, ``NAME.md`` and ``NAME.tex`` into a directory."""
    table.frame.to_csv(directory / f"{table.name}.csv", index=False, encoding="utf-8")
    (directory / f"{table.name}.md").write_text(to_markdown(table), encoding="utf-8")
    (directory / f"{table.name}.tex").write_text(to_latex(table), encoding="utf-8")
