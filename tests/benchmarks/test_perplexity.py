"""The perplexity benchmark runs, and both implementations compute the same."""

from dataclasses import replace

from benchmarks import perplexity
from benchmarks.table import markdown
from benchmarks.workload import MODEL


def test_both_implementations_agree(tiny_model):
    rows = perplexity.run(count=24, repeats=1, device="cpu", config=replace(MODEL, checkpoint=str(tiny_model)))
    assert [row["implementation"] for row in rows] == ["one window at a time", "packed"] * 3
    assert all(row["difference"] <= 1e-4 and row["seconds"] > 0 for row in rows)
    # The longest documents take more than one window.
    assert "pages" in rows[-1]["case"] and float(rows[-1]["case"].split()[-2]) > perplexity.WINDOW
    assert "packed" in markdown(rows)
