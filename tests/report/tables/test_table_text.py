"""Arbitrary Unicode in Markdown and LaTeX; the paper's numbers; a document of all tables that LaTeX accepts."""

import re
import shutil
import subprocess

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.report.tables.table import ListTable
from pipeline.report.tables.table_text import (
    escape_latex,
    escape_markdown,
    latex_document,
    one_line,
    shorten,
    to_latex,
)

ANY_TEXT = st.text(st.characters(exclude_categories=()))


def test_literals():
    assert one_line(" a\r\n\tb\u2028c\x00\ud800 ") == "a b c\ufffd\ufffd"
    assert escape_markdown("a|b\n*c* `d` <e> $f$ [g](h) \\") == r"a\|b \*c\* \`d\` \<e\> \$f\$ \[g\](h) \\"
    assert escape_latex("50% of $x_1$ & {y}^2 # ~ \\") == (
        r"50\% of \$x\_1\$ \& \{y\}\textasciicircum{}2 \# \textasciitilde{} \textbackslash{}"
    )
    assert escape_latex("[1] * ---") == r"{[}1{]} {*} -{}-{}-"
    assert escape_latex("(−∞, 3×2]") == r"(\textminus{}\ensuremath{\infty}, 3\texttimes{}2{]}"


def test_shorten_cuts_after_a_word():
    assert shorten("one two three", 13) == "one two three"
    assert shorten("one two three", 12) == "one two…"
    assert shorten("one two three", 8) == "one two…"
    assert shorten("one two three", 7) == "one…"
    assert shorten("abcdefgh", 4) == "abc…"
    assert shorten("a\n b", 10) == "a b"


@given(ANY_TEXT)
def test_markdown_cells_stay_one_cell_and_decode_to_the_text(text):
    escaped = escape_markdown(text)
    assert len(escaped.splitlines()) <= 1
    assert not re.search(r"(?<!\\)(?:\\\\)*\|", escaped)
    assert re.sub(r"\\([\\`*_\[\]<>|~$&])", r"\1", escaped) == one_line(text)
    escaped.encode("utf-8")


@given(ANY_TEXT)
def test_latex_has_balanced_braces_and_no_special_character(text):
    escaped = escape_latex(text)
    bare = re.sub(r"\\[{}&%_#$]|\\text[a-z]+\{\}|\\ensuremath\{\\[a-z]+\}", "", escaped)
    assert not re.search(r"[\\&%_#$~^]", bare) and "--" not in bare
    assert re.sub(r"\{[\[\]*]?\}", "", bare).count("{") == 0
    escaped.encode("utf-8")


@given(ANY_TEXT, st.integers(2, 40))
def test_shortened_text_fits_and_begins_like_the_text(text, limit):
    short = shorten(text, limit)
    assert len(short) <= limit
    assert short == one_line(text) or (short.endswith("…") and one_line(text).startswith(short[:-1]))


def list_table(caption, rows=(("x", "y"),), note=""):
    return ListTable("t", caption, ["Name", "Text"], rows, 1, pd.DataFrame({"x": [1]}), note)


def test_tables_of_the_paper_keep_their_numbers():
    latex = to_latex(list_table("Table 21 (b). TinyBenchmarks by task & model"))
    assert "\\renewcommand{\\thetable}{21 (b)}\n\\addtocounter{table}{-1}" in latex
    assert r"\caption{TinyBenchmarks by task \& model} \label{tab:t}" in latex
    latex = to_latex(list_table("Tests of fit. Table 3. Slices"))
    assert r"\renewcommand{\thetable}{A\arabic{table}}" in latex and "addtocounter" not in latex


@given(st.lists(st.tuples(ANY_TEXT, ANY_TEXT), min_size=1, max_size=3))
def test_columns_share_the_line(rows):
    widths = [float(width) for width in re.findall(r"\\dimexpr([0-9.]+)\\linewidth", to_latex(list_table("T", rows)))]
    assert len(widths) == 2 and sum(widths) == pytest.approx(1, abs=1e-3) and min(widths) > 0.1


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_latex_accepts_a_list_with_every_escaped_character(tmp_path):
    characters = r"\{}&%_#$~^<>|`[]*—…−×±∞≤≥ -- ---"
    rows = [["soft " * 30, characters, escape_latex("x")], ["", characters * 3, "2"]]
    for name, caption in (("first", "Table 5. All of it"), ("second", "Not of the paper")):
        table = ListTable(name, caption, ["Name", "Texts", "n"], rows, 1, pd.DataFrame({"x": [1]}), characters)
        (tmp_path / f"{name}.tex").write_text(to_latex(table))
    (tmp_path / "all_tables.tex").write_text(latex_document(["first", "second"]))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all_tables.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "all_tables.pdf").stat().st_size > 1000
