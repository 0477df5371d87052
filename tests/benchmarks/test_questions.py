"""The benchmark of questions runs, and its ways give the same answers."""

from benchmarks import questions
from benchmarks.table import markdown


def test_all_ways_agree():
    rows = questions.run(questions=3, samples=6, repeats=1, prompts=60, device="cpu")
    apart, together = rows[:2]
    assert together["different"] == 0 and together["positions"] < apart["positions"]
    assert together["forward_passes"] < apart["forward_passes"]
    assert "a linear programme each" in markdown(rows)
