"""Which qualitative cases Tables 11 to 19 show, and a case as CSV, Markdown, LaTeX and HTML."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.axes.novelty.cases import (
    REGIMES,
    CaseTable,
    Choice,
    ConditionResult,
    Response,
    case_latex,
    case_markdown,
    case_tables,
    select_cases,
    top_classes,
    write_case_texts,
)
from pipeline.report.page.page import page_templates

SOFT, HARD, FAILURE = REGIMES


def utilities(rows):
    """{(model, prompt): (base, soft, hard)} by condition."""
    return {key: dict(zip(("base", "soft", "hard"), values, strict=True)) for key, values in rows.items()}


def test_other_models_come_before_a_models_second_case():
    found = utilities(
        {
            ("a", "p1"): (0, 9, 0),
            ("a", "p2"): (0, 8, 0),
            ("a", "p3"): (0, 7, 0),
            ("b", "p1"): (0, 6, 0),
            ("b", "p2"): (0, 5, 0),
            ("b", "p3"): (0, 4, 0),
        }
    )
    # b's best is at p1, which is taken; then no model is left and a's best other prompt is p3.
    assert select_cases(found, SOFT) == [Choice("a", "p1", 9), Choice("b", "p2", 5), Choice("a", "p3", 7)]


def test_cases_of_the_right_sign_come_first_and_others_say_their_delta():
    found = utilities({("a", "p1"): (0, 3, 0), ("b", "p2"): (5, 4, 0), ("b", "p3"): (5, 2, 0)})
    assert select_cases(found, SOFT) == [Choice("a", "p1", 3), Choice("b", "p2", -1), Choice("b", "p3", -3)]
    assert [SOFT.holds(choice.delta) for choice in select_cases(found, SOFT)] == [True, False, False]


def test_failures_are_the_most_negative_and_hard_may_tie():
    found = utilities({("a", "p1"): (5, 1, 2), ("a", "p2"): (9, 1, 1), ("a", "p3"): (4, 4, 4)})
    assert [choice.delta for choice in select_cases(found, FAILURE)] == [-8, -3, 0]
    assert HARD.holds(0) and not SOFT.holds(0) and not FAILURE.holds(0)


@given(
    st.dictionaries(
        st.tuples(st.sampled_from("abc"), st.sampled_from("pqrst")),
        st.tuples(*[st.floats(0, 10)] * 3),
        max_size=15,
    ),
    st.sampled_from(REGIMES),
)
def test_selection_properties(rows, regime):
    found = utilities(rows)
    chosen = select_cases(found, regime)
    assert len(chosen) == min(3, len(found)) == len({(c.model, c.prompt_id) for c in chosen})
    assert all(choice.delta == regime.delta(found[choice.model, choice.prompt_id]) for choice in chosen)
    right = sum(regime.holds(regime.delta(values)) for values in found.values())
    assert sum(regime.holds(choice.delta) for choice in chosen) == min(right, 3)
    if chosen and right:
        best = max(regime.sign * regime.delta(values) for values in found.values())
        assert regime.sign * chosen[0].delta == best
    # Repeats only where other prompts of the right sign are used up.
    prompts = {p for (_, p), values in found.items() if regime.holds(regime.delta(values))}
    holding = [choice.prompt_id for choice in chosen if regime.holds(choice.delta)]
    assert len(set(holding)) == min(len(holding), len(prompts))


def test_top_classes_by_rating_then_class():
    classes = pd.DataFrame(
        {
            "class_index": [3, 0, 1, 2, 4, 5],
            "representative": list("dabcef"),
            "size": [1, 2, 3, 4, 5, 6],
            "rating": [7, 2, 7, 9, 1, 1],
            "reward": [0.1] * 6,
        }
    )
    top = top_classes(classes)
    assert [response.text for response in top] == ["c", "b", "d", "a", "e"]
    assert (top[0].rating, top[0].size) == (9, 4)


def test_case_tables_take_the_curated_split_and_known_models():
    rows = [
        (model, condition, prompt, split, "Topic", f"text {prompt}", 3, utility)
        for model in ("a", "unknown")
        for condition, utility in (("base", 1.0), ("soft", 4.0), ("hard", 5.0))
        for prompt, split in (("p", "curated"), ("w", "wildchat"))
    ]
    columns = ["model", "condition", "prompt_id", "split", "category", "prompt", "distinct", "utility"]
    classes = pd.DataFrame(
        [("a", "soft", "p", 0, "only soft", 10, 8, 1.0)],
        columns=["model", "condition", "prompt_id", "class_index", "representative", "size", "rating", "reward"],
    )
    tables = case_tables(pd.DataFrame(rows, columns=columns), classes, {"a": "Model A"}, stand_in=False)
    assert [(table.name, table.delta, table.holds) for table in tables] == [
        ("table11", 3.0, True),
        ("table14", 1.0, True),
        ("table17", 4.0, False),
    ]
    first = tables[0]
    assert first.caption == "Table 11. Soft targets clearly help: utility soft - base = +3.00. Model: Model A (Topic)"
    assert "no better case exists" in tables[2].caption
    assert [len(result.responses) for result in first.results.values()] == [0, 1, 0]


LONG = "word " * 100 + 'end\r\nof, "it" | <i> 50% 北京'


@pytest.fixture
def case():
    results = {
        "base": ConditionResult(1, 2.5, (Response("a | b\n**c** <script>", 10, 7, 0.1),)),
        "soft": ConditionResult(2, 5.0, (Response(LONG, 6, 9, 0.2), Response("", 4, 1, -9.0))),
        "hard": ConditionResult(0, 0.0, ()),
    }
    return CaseTable(11, REGIMES[0], "m", "Model_M", "Topic", "Say | it\nnow", 2.5, False, results)


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


def test_html_is_escaped(case):
    page = page_templates().get_template("tables.html.jinja").module.case_html(case)
    assert "<script>" not in page and "&lt;script&gt;" in page and "rated 7; 10 in the class" in page


def test_csv_has_the_full_text(case, tmp_path):
    write_case_texts(case, tmp_path, {"base": "evals/base/provenance.json"})
    with (tmp_path / "table11.csv").open(newline="", encoding="utf-8") as file:
        frame = pd.read_csv(file, keep_default_na=False)
    assert list(frame["representative"]) == ["a | b\n**c** <script>", LONG, ""]
    assert list(frame["condition"]) == ["base", "soft", "soft"] and list(frame["rank"]) == [1, 1, 2]
    assert list(frame["provenance"]) == ["evals/base/provenance.json", "", ""]
    assert set(frame["prompt"]) == {"Say | it\nnow"} and set(frame["delta"]) == {2.5}
