"""What a record says of a run's cost: from its start, tokens of its models alone, and no part of what it is."""

import json
import time

import pytest

from pipeline.record.provenance import StageRecord
from pipeline.record.usage import Usage


def written(record, path):
    record.write(path, {})
    return json.loads(path.read_text())


def test_cost_is_in_the_record_and_not_in_the_identity(tmp_path):
    first, second = Usage(), Usage()
    second.continued = True
    one, two = (StageRecord("s", {}, [], "c", usage=usage) for usage in (first, second))
    assert one.identity == two.identity
    content = written(one, tmp_path / "one.json")
    # A Python process takes some megabytes, whatever the kernel counts in.
    assert 1e7 < content["peak_memory_bytes"] < 1e12 and content["continued"] is False
    assert written(two, tmp_path / "two.json")["continued"] is True
    time.sleep(0.05)
    again = written(one, tmp_path / "one.json")
    assert again["wall_time_seconds"] >= content["wall_time_seconds"] + 0.05 and again["identity"] == one.identity


def test_tokens_are_those_that_the_models_read_since_the_start(tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from pipeline.engines.loading.token_count import count_tokens

    config = transformers.Qwen3Config(
        num_key_value_heads=1,
        vocab_size=11,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        head_dim=8,
    )
    model = count_tokens(transformers.Qwen3ForCausalLM(config).eval())
    model(torch.ones(2, 5, dtype=torch.int64))
    record = StageRecord("s", {}, [], "c")
    model(torch.ones(3, 4, dtype=torch.int64))
    model.generate(torch.ones(1, 6, dtype=torch.int64), max_new_tokens=3, min_new_tokens=3, do_sample=False)
    # Behind the prompt, every token but the last is read.
    assert written(record, tmp_path / "r.json")["tokens_read"] == 3 * 4 + 6 + 2
