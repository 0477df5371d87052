"""Arbitrary Unicode in Markdown, LaTeX and captions; widths of LaTeX lists; the document of all tables."""

import re
import shutil
import subprocess

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.report.tables.table import ListTable
from pipeline.report.tables.table_text import (
    LINE_CHARACTERS,
    column_types,
    escape_latex,
    escape_markdown,
    latex_caption,
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


TEXTS = st.text(st.sampled_from("ab ∞−×±[(,"), max_size=60)


def widths(types):
    return [float(number) for number in re.findall(r"p\{([0-9.]+)\\linewidth\}", "".join(types))]


def test_what_fits_the_line_is_no_paragraph():
    assert column_types(["Model", "n"], [["base", "100"]], 1) == ("scriptsize", ["l", "c"])
    # Lengths of 46 and gaps of 4 are a line of 96.
    assert column_types(["a" * 46, "b" * 46], [], 1) == ("scriptsize", ["l", "c"])
    assert column_types(["a" * 47, "b" * 47], [], 1) == ("tiny", ["l", "c"])


def test_long_texts_share_the_line():
    size, types = column_types(["Name", "Note", "n"], [["base", "word " * 40, "1"], ["soft", "", "2"]], 2)
    assert size == "scriptsize"
    name, note, number = widths(types)
    assert name == pytest.approx(4 / 96, abs=1e-3) and number == pytest.approx(1 / 96, abs=1e-3)
    assert note == pytest.approx((96 - 6 - 5) / 96, abs=1e-3)
    assert r"\raggedright" in types[0] and r"\raggedright" in types[1] and r"\centering" in types[2]


@given(st.lists(st.lists(TEXTS, min_size=3, max_size=3), min_size=1, max_size=4), st.integers(0, 3))
def test_columns_hold_their_words_and_fit_the_line(rows, labels):
    size, types = column_types(rows[0], rows[1:], labels)
    line = LINE_CHARACTERS[size]
    assert len(types) == 3
    if found := widths(types):
        words = [max(len(word) for row in rows for word in [*row[column].split(), ""]) for column in range(3)]
        assert all(width * line > word - 0.1 for width, word in zip(found, words, strict=True))
        assert sum(found) * line <= max(line - 6, sum(words)) + 0.2
    else:
        assert types == ["l"] * labels + ["c"] * (3 - labels)
        assert sum(max(len(row[column]) for row in rows) for column in range(3)) + 6 <= line


def test_captions_keep_the_papers_numbers():
    number, caption = latex_caption("Table 21 (b). TinyBenchmarks by task & model")
    assert number == [r"\renewcommand{\thetable}{21 (b)}", r"\addtocounter{table}{-1}"]
    assert caption == r"\caption{TinyBenchmarks by task \& model}"
    number, caption = latex_caption("Tests of fit. Table 3. Slices")
    assert number == [r"\renewcommand{\thetable}{A\arabic{table}}"]
    assert caption == r"\caption{Tests of fit. Table 3. Slices}"


def test_document_has_every_table_in_order():
    text = latex_document(["table6", "table2"])
    assert text.index(r"\input{table6}") < text.index(r"\input{table2}")
    assert all(rf"\usepackage{{{name}}}" in text for name in ("adjustbox", "array", "booktabs", "longtable"))


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex with adjustbox")
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
