"""The Hugging Face engine: the samples of ``generate``, for many requests, and the interface's own functions."""

import json
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pipeline.config.params import load_params
from pipeline.engines.loading.model import stop_ids
from pipeline.engines.sampling.text_engine import GREEDY, checkpoint_stop_ids, sampling_law, seed_groups, task_law
from pipeline.engines.sampling.transformers_engine import TransformersEngine
from tests.conftest import ROOT
from tests.engines.engine_cases import collect, follows, make_request, two_token_law


def test_law(model, tokenizer):
    stops = {tokenizer.eos_token_id}
    request = make_request(tokenizer, 3000)
    engine = TransformersEngine(model, tokenizer, stops, batch_size=64)
    law = two_token_law(model, tokenizer, request, stops)
    assert follows(collect(engine, [request]).values(), law) > 1e-4
    # The test has power: the law of another nucleus is refused.
    narrow = collect(engine, [make_request(tokenizer, 3000, top_p=0.8)]).values()
    assert follows(narrow, law) < 1e-10


def test_checkpoint_defaults_replace_settings_where_asked(model_config, tmp_path):
    """The tiny checkpoint's generation_config.json has temperature 0.1, top_k 1 and top_p 0.5."""
    paper = load_params(ROOT / "params.yaml").generate.structured

    def law(*names, config=model_config):
        return sampling_law(replace(paper, checkpoint_defaults=list(names)), config)

    assert law() == {"temperature": 1.0, "top_p": 1.0, "top_k": None}
    assert law("temperature", "top_p") == {"temperature": 0.1, "top_p": 0.5, "top_k": None}
    assert law("top_k") == {"temperature": 1.0, "top_p": 1.0, "top_k": 1}
    # transformers leaves files that it wrote before 4.50 unused, as Llama 3.2's.
    declared = json.loads((Path(model_config.checkpoint) / "generation_config.json").read_text())
    (tmp_path / "generation_config.json").write_text(json.dumps(declared | {"transformers_version": "4.45.0.dev0"}))
    old, embedded = (replace(model_config, checkpoint=str(path)) for path in (tmp_path, ROOT / "models/embedded"))
    assert law("temperature", config=old)["temperature"] == 1.0
    # As they are used, greedy answers to tasks become samples at temperature 1.
    assert task_law("checkpoint", embedded) == {"temperature": 1.0, "top_p": 1.0, "top_k": 20}
    assert task_law("greedy", embedded) == task_law("checkpoint", old) == GREEDY


def test_stop_tokens_are_known_without_the_model(model, model_config, tokenizer, tiny_model, tmp_path):
    assert checkpoint_stop_ids(model_config, tokenizer, None) == stop_ids(model, tokenizer, model_config.terminator)
    # A checkpoint without generation_config.json, whose configuration names two tokens.
    config = json.loads((tiny_model / "config.json").read_text()) | {"eos_token_id": [5, 6]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    changed = replace(model_config, checkpoint=str(tmp_path))
    assert checkpoint_stop_ids(changed, tokenizer, None) == {5, 6, tokenizer.eos_token_id}


@given(st.sets(st.integers(0, 60)), st.integers(1, 9))
def test_groups_depend_on_the_index_alone(indices, size):
    whole = seed_groups({index: index * 3 for index in range(61)}, size)
    part = seed_groups({index: index * 3 for index in indices}, size)
    assert [index for group in part for index in group] == sorted(indices)
    for group in part:
        assert any(group.keys() <= other.keys() for other in whole)
        assert next(iter(group)) == min(group) and len(group) <= size
