"""What a run's record holds, what makes two runs the same, and what a run cost."""

import json
import time

import torch
import transformers

from pipeline.engines.loading.model import count_tokens
from pipeline.record.provenance import StageRecord, Usage, sha256_path


def test_identity_is_of_contents_not_of_paths(tmp_path):
    for name, content in (("a", "1"), ("b", "1"), ("c", "2")):
        (tmp_path / name).write_text(content)
    first, same, other = (StageRecord("s", {"p": 1}, [tmp_path / name], "code").identity for name in "abc")
    assert first == same != other
    assert StageRecord("s", {"p": 2}, [tmp_path / "a"], "code").identity != first
    assert StageRecord("s", {"p": 1}, [tmp_path / "a"], "other code").identity != first


def test_what_is_found_at_work_is_part_of_the_identity():
    record = StageRecord("s", {"p": 1}, [], "code")
    before = record.identity
    record.add(revision="abc")
    assert record.identity != before


def test_records_are_no_part_of_a_directorys_content(tmp_path):
    (tmp_path / "made" / "inner").mkdir(parents=True)
    (tmp_path / "made" / "table").write_text("1")
    before = sha256_path(tmp_path / "made")
    record = StageRecord("s", {"p": 1}, [], "code", seed=3, command="python -m s")
    record.write(tmp_path / "made" / "provenance.json", {"made": before}, rows=7)
    assert sha256_path(tmp_path / "made") == before
    content = json.loads((tmp_path / "made" / "provenance.json").read_text())
    assert content["outputs_sha256"] == {"made": before} and content["rows"] == 7 and content["seed"] == 3
    assert content["code"] == "code" and content["command"] == "python -m s" and content["parameters"] == {"p": 1}
    for name in ("inner/provenance.json", "table.provenance.json"):
        (tmp_path / "made" / name).write_text("of something in it")
    assert sha256_path(tmp_path / "made") == before
    (tmp_path / "made" / "inner" / "provenance").write_text("no record")
    assert sha256_path(tmp_path / "made") != before


def test_cost_is_from_the_start_of_the_run_and_no_part_of_its_identity():
    ones = dict.fromkeys(("num_key_value_heads", "num_hidden_layers", "num_attention_heads"), 1)
    sizes = dict.fromkeys(("hidden_size", "intermediate_size", "head_dim"), 8)
    config = transformers.Qwen3Config(vocab_size=11, **ones, **sizes)
    model = count_tokens(transformers.Qwen3ForCausalLM(config).eval())
    model(torch.ones(2, 5, dtype=torch.int64))
    usage = Usage()
    one, other = StageRecord("s", {}, [], "c", usage=usage), StageRecord("s", {}, [], "c")
    before, usage.continued = usage.measured(), True
    model(torch.ones(3, 4, dtype=torch.int64))
    model.generate(torch.ones(1, 6, dtype=torch.int64), max_new_tokens=3, min_new_tokens=3, do_sample=False)
    time.sleep(0.05)
    after = usage.measured()
    # Behind the prompt, every token but the last is read.
    assert before["tokens_read"] == 0 and after["tokens_read"] == 3 * 4 + 6 + 2
    assert after["wall_time_seconds"] >= before["wall_time_seconds"] + 0.05 and 1e7 < after["peak_memory_bytes"] < 1e12
    assert not before["continued"] and after["continued"] and one.identity == other.identity
