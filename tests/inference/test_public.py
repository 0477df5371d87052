"""Public benchmarks: whole runs, against files and a script of the same form."""

import json

import numpy as np
import pandas as pd
import pytest

from pipeline.artifacts.prompts import write_prompts
from pipeline.core.prompts.structured import make_prompt
from pipeline.public import scores
from pipeline.public.__main__ import main
from pipeline.public.overlap import overlapping
from pipeline.public.unpredictabench import read_answer
from tests.composition import write_changed

SCRIPT = """
import asyncio, json, pathlib, sys, aiohttp, nest_asyncio
PAIRS = [("gaussian", "1")]
def Config(**settings):
    return settings
async def ask(model, api_url, timeout):
    body = {"model": model, "messages": [{"role": "user", "content": "A random number, please!"}]}
    async with aiohttp.ClientSession() as session, session.post(api_url, json=body, timeout=timeout) as reply:
        return (await reply.json())["usage"]["completion_tokens"]
def main():
    options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
    place, total = pathlib.Path(options["--save-dir"]) / "run", asyncio.run(ask(**Config(model=options["--model"])))
    place.mkdir()
    for number in range(1, 6):
        (place / f"exp{number}_raw.csv").write_text("raw,answer1,answer2\\n1,1,0\\n1,1,error\\n")
    found = {f"Exp{number}": {"score": number} for number in range(1, 6)}
    (place / "summary.json").write_text(json.dumps({"experiments": found, "total_score": total}))
"""


@pytest.fixture
def run(project, tmp_path):
    path = write_changed(project.path, tmp_path / "params.yaml", reports=str(tmp_path / "reports"))
    options = {"minutes": 5, "max_new_tokens": 3, "batch_size": 64, "conditions": ["soft"], "model": None}

    def scored(benchmark):
        main(benchmark=benchmark, source=tmp_path / "source", params=path, results=tmp_path, **options)
        return pd.read_csv(tmp_path / f"{benchmark}.csv", keep_default_na=False)

    (tmp_path / "source").mkdir()
    return scored


def test_a_script_scores_what_our_server_answers(run, project, tmp_path, capfd):
    (tmp_path / "source" / "benchmark.py").write_text(SCRIPT)
    own = make_prompt("gaussian", {"mu": 0.0, "sigma": 1.0}, "train")
    write_prompts(project.adapter.parents[2] / "prompts" / "train.parquet", [own])
    found = run("failure_to_mix")
    assert found["n_readable"].tolist() == [1, 1, 1, 1, 1, 5] and found["score"].tolist()[:5] == [1, 2, 3, 4, 5]
    assert found["score"].iloc[5] in (1, 2, 3), "an answer has three tokens at most"
    assert "1 of 1 training requests share six words in a row or an option with it" in capfd.readouterr().out
    table = (tmp_path / "reports" / "public" / "failure_to_mix.md").read_text()
    assert table.index("Perfect sampler") < table.index("Claude") < table.index("embedded | soft")
    for _ in range(2):  # the same seed is there once
        other = found.assign(seed=9, score=found["score"] + 2).to_dict("records")
        scores.record(tmp_path / "failure_to_mix.csv", other)
    frame = scores.compared("failure_to_mix", pd.read_csv(tmp_path / "failure_to_mix.csv"))
    row = frame[frame["ours"] & (frame["experiment"] == "exp2")].iloc[0]
    assert (row["score"], row["n"]) == (3, 2) and row["reach"] == pytest.approx(12.706, abs=1e-3), "Student's t"


def test_six_words_in_a_row_or_an_option_are_an_overlap():
    alike = ["Two - THREE four five six (seven)?", "Say: one two three four five six", "A Coin"]
    others = ["two three four five six", "one two three four five seven six", "coins"]
    assert overlapping([*alike, *others], ["One, two, three, four, five, six, seven."], {"coin"}) == alike


def test_problems_are_asked_and_what_is_incomplete_is_named(run, tmp_path, capsys):
    row = {"task": "code", "uid": "a", "id": "Discrete_distributions/Poisson", "prompt_text": "A number?"}
    rows = [row, row | {"uid": "b", "id": "Normal"}, row | {"uid": "c"}, row | {"uid": "d", "prompt_text": None}]
    (tmp_path / "source" / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    truths = tmp_path / "source" / "ground_truth_values" / "code" / "ground_truth_values.json"
    truths.parent.mkdir(parents=True)
    values = np.random.default_rng(0).poisson(4, 500).tolist()
    truths.write_text(json.dumps([{"uid": uid, "ground_truth_values": values} for uid in "abd"]))
    found = run("unpredictabench").set_index(["model", "condition", "experiment"])
    assert found.loc["Random baseline", "", "total"][["score", "n_readable"]].tolist() == [100, 200]
    assert found.loc["embedded", "soft", "total"]["score"] == 0 and len(found) == 4
    printed = capsys.readouterr().out
    assert (
        "problem code/c: ground_truth_values has no numbers" in printed and "code/d: it has no prompt_text" in printed
    )
    assert [read_answer(text) for text in ("4", "It is {-2.5}.", "[3e1]")] == [4, -2.5, 30]
