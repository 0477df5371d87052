"""The NoveltyBench benchmark runs, its implementations agree, and its figures are there."""

from benchmarks import novelty
from benchmarks.table import markdown


def test_all_implementations_agree(monkeypatch):
    tiny = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 48}
    monkeypatch.setitem(novelty.SHAPES, "tiny", tiny)
    rows = novelty.run(prompts=6, shape="tiny", device="cpu")
    assert [row["implementation"] for row in rows] == [
        "plain",
        "rounds",
        "rounds, resumed",
        "plain",
        "representatives",
        "resumed",
    ]
    partition, reward = rows[:3], rows[3:]
    assert [row["different"] for row in rows] == [0] * 6
    assert partition[0]["calls"] > partition[1]["calls"] > partition[2]["calls"] == 0
    assert reward[0]["calls"] == 60 > reward[1]["calls"] > reward[2]["calls"] == 0
    assert all(row["seconds"] > 0 and row["ratio"] > 0 for row in rows)
    assert "representatives" in markdown(rows)
