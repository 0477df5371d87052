"""Columns of a LaTeX list that fits the page, and the document that shows all tables."""

import re
from collections.abc import Iterable, Sequence

from pipeline.report.tables.escaping import escape_latex

# Font sizes of a list with the characters that a line of 345pt (the article class) holds, its letters half an em wide.
LINE_CHARACTERS = {"scriptsize": 96, "tiny": 134}
# White space between two columns.
GAP_CHARACTERS = 2
PACKAGES = ("adjustbox", "array", "booktabs", "longtable")
PREAMBLE = r"""% All tables of the report. \input{NAME} takes one into a document of your own, with the packages below.
\documentclass{article}
\usepackage[T1]{fontenc}
\IfFileExists{lmodern.sty}{\usepackage{lmodern}}{}
\usepackage[margin=1in]{geometry}
"""


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
