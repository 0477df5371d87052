"""Numbers of the paper's text on open-ended answers beside those of evaluations."""

import pandas as pd

from pipeline.axes.open.stated import LARGER_SUPPORT, open_stated_table
from pipeline.report.evaluations import read_evaluations
from tests.report.conftest import CONDITIONS, metric_row, write_fabricated


def evaluate(root, condition, sizes, counts):
    prompts = [f"p{place}" for place in range(len(sizes))]
    per_prompt = pd.DataFrame({"prompt_id": prompts, "top_p_support_size": sizes})
    answers = pd.DataFrame(
        [(category, f"a{place}", n) for category in ("weekday", "city") for place, n in enumerate(counts)],
        columns=["category", "answer", "count"],
    )
    rows = [metric_row("open", "m", condition, "open", "unique_fraction", 0.5)]
    write_fabricated(root, rows, per_prompt=per_prompt, answers=answers)


def test_the_papers_numbers_stand_beside_ours_and_are_marked(tmp_path):
    evaluate(tmp_path, "base", [5, 5, 5], [80, 10, 5, 3, 2])
    evaluate(tmp_path, "soft", [9, 5, 7], [20, 20, 20, 20, 20])
    table = open_stated_table(read_evaluations(tmp_path), {"m": "Model"}, CONDITIONS)
    rows = {(row[0], row[1]): list(row[2:]) for row in table.rows}
    weekday, city = "Share of the most frequent answer, weekday", "Share of the 4 most frequent answers, city"
    assert rows[LARGER_SUPPORT, "Model"][1] == "2 of 3"
    assert rows[LARGER_SUPPORT, "12 models (paper)"][1:] == ["1101 of 1224", "1089 of 1224"]
    assert rows[weekday, "Model"][:2] == ["80%", "20%"] and rows[city, "Model"][:2] == ["98%", "80%"]
    assert rows[weekday, "Qwen3-14B (paper)"] == ["80%", "about 40%", "about 40%"]
    assert rows[city, "Gemma-3-27B-it (paper)"] == ["74%", "15%", "24%"]
    ours = table.frame["of"] == "Model"
    assert table.frame.loc[ours, "provenance"].str.contains("open/m/base").all()
    assert (table.frame.loc[~ours, "provenance"] == "").all()
