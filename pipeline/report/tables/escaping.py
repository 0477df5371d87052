"""Arbitrary text inside Markdown tables, LaTeX and captions.

Model responses hold any Unicode: line breaks, pipes, control characters. Total functions.
"""

import unicodedata

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
