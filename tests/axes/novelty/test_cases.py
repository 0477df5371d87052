"""Which qualitative cases Tables 11 to 19 show, and what a case's table holds."""

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from pipeline.axes.novelty.cases import case_tables, select_cases
from pipeline.report.table_text import to_markdown

PAIRS = st.tuples(st.sampled_from("abc"), st.sampled_from("pqrst"))


def chosen(differences):
    return [(*pair, differences[pair]) for pair in select_cases(pd.Series(differences))]


def test_other_models_come_before_a_models_second_case():
    found = chosen({("a", "p1"): 9, ("a", "p2"): 8, ("a", "p3"): 7, ("b", "p1"): 6, ("b", "p2"): 5, ("b", "p3"): 4})
    # b's best is at p1, which is taken; then no model is left and a's best other prompt is p3.
    assert found == [("a", "p1", 9), ("b", "p2", 5), ("a", "p3", 7)]


@given(st.dictionaries(PAIRS, st.floats(-10, 10), min_size=1, max_size=15))
def test_selection_properties(differences):
    found = chosen(differences)
    assert len(found) == min(3, len(differences)) == len({case[:2] for case in found})
    assert found[0][2] == max(differences.values())
    right = {pair for pair, value in differences.items() if value >= 0}
    holding = [case for case in found if case[2] >= 0]
    assert len(holding) == min(len(right), 3)
    # Repeats only where other prompts of the right sign are used up.
    assert len({prompt for _, prompt, _ in holding}) == min(len(holding), len({prompt for _, prompt in right}))


def test_the_tables_of_the_curated_split():
    rows = [
        (model, condition, prompt, split, "Topic", f"Say | {prompt}\nnow", 3, utility)
        for model in ("a",)
        for condition, utility in (("base", 1.0), ("soft", 4.0), ("hard", 5.0))
        for prompt, split in (("p", "curated"), ("w", "wildchat"))
    ]
    columns = ["model", "condition", "prompt_id", "split", "category", "prompt", "distinct", "utility"]
    long = "word " * 100 + "end"
    texts = {"base": [("a | b", 7)], "soft": [("d", 7), ("a", 2), ("", 7), (long, 9), ("e", 1), ("f", 1)], "hard": []}
    classes = pd.DataFrame(
        [
            ("a", name, "p", i, text, 10, rating, 0.5)
            for name, own in texts.items()
            for i, (text, rating) in enumerate(own)
        ],
        columns=["model", "condition", "prompt_id", "class_index", "representative", "size", "rating", "reward"],
    )
    tables = case_tables(pd.DataFrame(rows, columns=columns), classes, {"a": "Model A"}, stand_in=False)
    assert [table.name for table in tables] == ["table11", "table14", "table17"]
    assert tables[0].caption == "Table 11. Soft targets clearly help: utility soft - base = +3.00. Model: Model A"
    # The best-rated classes first, five at most; equal ratings keep the order of the classes.
    frame = tables[0].frame
    assert frame["condition"].tolist() == ["base", *["soft"] * 5] and set(frame["prompt"]) == {"Say | p\nnow"}
    assert frame["representative"].tolist() == ["a | b", long, "d", "", "a", "e"]
    assert frame["rating"].tolist() == [7, 9, 7, 7, 2, 1]
    lines = to_markdown(tables[0]).splitlines()
    assert lines[2] == "| Prompt | base (3 / 1.00) | soft (3 / 4.00) | hard (3 / 5.00) |"
    assert lines[4].startswith(r"| Say \| p now | a \| b (7) | word word") and lines[4].endswith("word… (9) |  |")
    assert lines[6] == "|  |  | (empty response) (7) |  |"
