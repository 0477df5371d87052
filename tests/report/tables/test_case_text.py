"""A NoveltyBench case as CSV, Markdown, LaTeX and HTML."""

import pandas as pd
import pytest

from pipeline.report.tables.case_text import case_html, case_latex, case_markdown, write_case_texts
from pipeline.report.tables.novelty_cases import REGIMES, CaseTable, ConditionResult, Response

LONG = "word " * 100 + 'end\r\nof, "it" | <i> 50% 北京'


@pytest.fixture
def case():
    results = {
        "base": ConditionResult(1, 2.5, (Response("a | b\n**c** <script>", 10, 7, 0.1),)),
        "soft": ConditionResult(2, 5.0, (Response(LONG, 6, 9, 0.2), Response("", 4, 1, -9.0))),
        "hard": ConditionResult(0, 0.0, ()),
    }
    return CaseTable("table11", 11, REGIMES[0], "m", "Model_M", "Topic", "Say | it\nnow", 2.5, False, results)


def test_markdown_has_one_line_per_rank(case):
    lines = case_markdown(case).splitlines()
    assert lines[2] == r"Prompt: Say \| it now"
    assert lines[4] == "| base (1 / 2.50) | soft (2 / 5.00) | hard (0 / 0.00) |"
    assert lines[6].startswith(r"| a \| b \*\*c\*\* \<script\> (7) | word word") and lines[6].endswith("word… (9) |  |")
    assert lines[7] == "|  | (empty response) (1) |  |"


def test_latex(case):
    latex = case_latex(case)
    assert r"a \textbar{} b {*}{*}c{*}{*} \textless{}script\textgreater{} (7) & word" in latex
    assert r"Model\_M" in latex and r"Say \textbar{} it now" in latex
    assert latex.count(r"\dimexpr0.3333\linewidth") == 3


def test_html_is_escaped(case):
    page = case_html(case)
    assert "<script>" not in page and "&lt;script&gt;" in page and "rated 7; 10 in the class" in page


def test_csv_has_the_full_text(case, tmp_path):
    write_case_texts(case, tmp_path, {"base": "evals/base/provenance.json"})
    with (tmp_path / "table11.csv").open(newline="", encoding="utf-8") as file:
        frame = pd.read_csv(file, keep_default_na=False)
    assert list(frame["representative"]) == ["a | b\n**c** <script>", LONG, ""]
    assert list(frame["condition"]) == ["base", "soft", "soft"] and list(frame["rank"]) == [1, 1, 2]
    assert list(frame["provenance"]) == ["evals/base/provenance.json", "", ""]
    assert set(frame["prompt"]) == {"Say | it\nnow"} and set(frame["delta"]) == {2.5}
