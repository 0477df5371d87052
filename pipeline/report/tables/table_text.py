"""A table as CSV, Markdown and LaTeX: any text made safe for them, and lists laid out to fit a page."""

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from pipeline.report.evaluations import EvaluationKey
from pipeline.report.tables.table import DASH, FAILED, MISSING, ListTable, Measure, Table

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
# Font sizes of a list with the characters that a line of 345pt (the article class) holds, its letters half an em wide.
LINE_CHARACTERS = {"scriptsize": 96, "tiny": 134}
# White space between two columns.
GAP_CHARACTERS = 2
NUMBERS = ("value", "n", "ci_low", "ci_high", "floor", "ratio", "undefined", "provenance")
"""Columns of a table's file that are of a cell."""
PACKAGES = ("adjustbox", "array", "booktabs", "longtable")
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


def to_frame(table: Table | ListTable) -> pd.DataFrame:
    """Full precision: one row per model, measure and condition, with n, interval, floor and the ratio to it.

    A list's records are its own.
    """
    if isinstance(table, ListTable):
        return table.frame
    rows, row_column, texts = [], table.row_title.lower(), [title.lower() for title in table.last_titles]
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
                        **{column: None if cell is None else getattr(cell, column) for column in NUMBERS},
                        **dict(zip(texts, table.last_texts(model, condition), strict=True)),
                    }
                )
    return pd.DataFrame(rows)


def to_markdown(table: Table | ListTable) -> str:
    """A Markdown table with 95% intervals beside the values, and the note."""
    if isinstance(table, ListTable):
        header = [escape_markdown(title) for title in table.header]
        rows = [[escape_markdown(text) for text in row] for row in table.rows]
    else:
        header, rows = _markdown_header(table), _markdown_rows(table)
    return f"{table.caption}\n\n{markdown_table(header, rows)}\n\n{table.note}\n"


def _markdown_header(table: Table) -> list[str]:
    if table.conditions_are_rows:
        return [table.row_title, "Condition", *(measure.title for measure in table.measures), *table.last_titles]
    return [table.row_title, *(f"{m.title} {condition}" for m in table.measures for condition in table.conditions)]


def _markdown_rows(table: Table) -> list[list[str]]:
    rows = []
    for labels, addresses in table.lines():
        row = [escape_markdown(label) for label in labels]
        for address in addresses:
            cell = shown(table, *address)
            if cell.status == "undefined":
                row.append(f"{cell.text} ({cell.detail})")
            else:
                row.append(f"{f'**{cell.text}**' if cell.best else cell.text} {cell.detail}".strip())
        rows.append([*row, *map(escape_markdown, _last_texts(table, addresses))])
    return rows


def _last_texts(table: Table, addresses: Sequence[tuple[str, Measure, str]]) -> list[str]:
    """The text in the last column of a row of ``Table.lines``, where there is such a column."""
    model, _, condition = addresses[0]
    return table.last_texts(model, condition)


def markdown_table(header: list[str], rows: list[list[str]]) -> str:
    """Lines of a Markdown table from cells that are escaped already."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def column_types(header: Sequence[str], rows: Iterable[Sequence[str]], labels: int) -> tuple[str, list[str]]:
    """Font size of a list and its LaTeX column types: ``l`` for labels, ``c`` for results, or paragraphs.

    Paragraphs are for lists whose longest texts do not fit beside each other. Every column then has room for its
    longest word, and what remains is shared out in proportion to the square roots of what is missing, which evens
    out the heights of cells. The smaller font is for lists whose longest words do not fit either.

    Args:
        header: Column titles.
        rows: Texts by row and column.
        labels: How many columns at the left are labels.
    """
    columns = [list(texts) for texts in zip(header, *rows, strict=True)]
    lengths = [max(map(len, texts)) for texts in columns]
    words = [max(len(word) for text in texts for word in text.split() or [""]) for texts in columns]
    gaps = GAP_CHARACTERS * len(columns)
    size = next((name for name, line in LINE_CHARACTERS.items() if sum(words) + gaps <= line), "tiny")
    line = LINE_CHARACTERS[size]
    if sum(lengths) + gaps <= line:
        return size, ["l" if index < labels else "c" for index in range(len(columns))]
    missing = [(length - word) ** 0.5 for length, word in zip(lengths, words, strict=True)]
    spare = max(line - gaps - sum(words), 0) / (sum(missing) or 1)
    types = []
    for index, (word, need, length) in enumerate(zip(words, missing, lengths, strict=True)):
        align, width = "raggedright" if index < labels else "centering", min(word + spare * need, length) / line
        types.append(rf">{{\{align}\arraybackslash}}p{{{width:.3f}\linewidth}}")
    return size, types


def latex_caption(caption: str) -> tuple[list[str], str]:
    r"""Lines that set a table's number, and its ``\caption``.

    Tables of the paper keep its numbers, also in ``\ref``; others are numbered A1, A2, ... The lines stand first
    inside the table's own group, so that tables outside of it are numbered as ever.
    """
    found = re.fullmatch(r"Table (\d+(?: \([a-z]\))?)\. (.*)", caption, re.DOTALL)
    number, text = found.groups() if found else (r"A\arabic{table}", caption)
    # LaTeX counts on where its number is not shown: A1, A2, ... would have gaps.
    undo = [r"\addtocounter{table}{-1}"] if found else []
    return [rf"\renewcommand{{\thetable}}{{{number}}}", *undo], rf"\caption{{{escape_latex(text)}}}"


def latex_document(names: Iterable[str]) -> str:
    """A document of its own that reads ``NAME.tex`` of all tables beside it, in this order."""
    packages = "".join(f"\\usepackage{{{name}}}\n" for name in PACKAGES)
    body = "".join(f"\\input{{{name}}}\n\\clearpage\n" for name in names)
    return f"{PREAMBLE}{packages}\\begin{{document}}\n{body}\\end{{document}}\n"


def _latex_header(table: Table) -> tuple[str, list[str]]:
    """Column specification and header lines."""
    if table.conditions_are_rows:
        titles = [*(measure.title for measure in table.measures), *table.last_titles]
        header = [table.row_title, "Condition", *map(escape_latex, titles)]
        return "ll" + "c" * len(titles), [" & ".join(header) + r" \\"]
    groups, width = len(table.measures), len(table.conditions)
    titles = [rf"\multicolumn{{{width}}}{{c}}{{{escape_latex(measure.title)}}}" for measure in table.measures]
    rules = [rf"\cmidrule(lr){{{2 + width * i}-{1 + width * (i + 1)}}}" for i in range(groups)]
    names = [condition.capitalize() for _ in table.measures for condition in table.conditions]
    header = [" & ".join(["", *titles]) + r" \\", " ".join(rules), " & ".join([table.row_title, *names]) + r" \\"]
    return "l" + "c" * (groups * width), header


def to_latex(table: Table | ListTable) -> str:
    """A booktabs table no wider than the line; bold best, dashes where undefined or not run, intervals below.

    A list is a longtable: it grows past a page, which a table environment cannot.
    """
    return _latex_list(table) if isinstance(table, ListTable) else _latex_table(table)


def _latex_table(table: Table) -> str:
    columns, header = _latex_header(table)
    number, caption = latex_caption(table.caption)
    lines = [r"\begin{table}", *number, r"\centering", caption]
    lines += [rf"\label{{tab:{table.name}}}", r"\begin{adjustbox}{max width=\linewidth}"]
    lines += [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", *header, r"\midrule"]
    for labels, addresses in table.lines():
        cells = [shown(table, *address) for address in addresses]
        texts = ["---" if cell.status != "ok" or cell.text == DASH else cell.text for cell in cells]
        values = [rf"\textbf{{{text}}}" if cell.best else text for cell, text in zip(cells, texts, strict=True)]
        last = map(escape_latex, _last_texts(table, addresses))
        lines.append(" & ".join([*map(escape_latex, labels), *values, *last]) + r" \\")
        details = [cell.detail if cell.status == "ok" else "" for cell in cells]
        if any(details):
            small = [rf"\scriptsize {escape_latex(detail)}" if detail else "" for detail in details]
            lines.append(" & ".join([*("" for _ in labels), *small]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{adjustbox}"]
    return "\n".join([*lines, rf"\par\smallskip\footnotesize {escape_latex(table.note)}", r"\end{table}"]) + "\n"


def _latex_list(table: ListTable) -> str:
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
