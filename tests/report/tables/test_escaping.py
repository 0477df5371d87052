"""Arbitrary Unicode in Markdown, LaTeX and captions."""

import re

from hypothesis import given
from hypothesis import strategies as st

from pipeline.report.tables.escaping import escape_latex, escape_markdown, one_line, shorten

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
