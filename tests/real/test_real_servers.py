"""The engine for servers against servers as they are: llama.cpp's, and vLLM on a CPU."""

import dataclasses

import pytest

from pipeline.engines.sampling.openai_engine import open_openai
from pipeline.engines.sampling.preflight_law import check_laws, law_checks
from pipeline.engines.sampling.text_engine import EngineError, SampleRequest
from tests.engines.engine_cases import collect

pytestmark = pytest.mark.real
MESSAGES = [{"role": "user", "content": "Give me one random word."}]
SHORT = [{"role": "user", "content": "What is the capital of France? Answer with one word."}]


@pytest.fixture
def make_request(tokenizer):
    def make(seeds, messages=MESSAGES, **changes):
        values = {"max_new_tokens": 6, "temperature": 1.0, "top_p": 1.0} | changes
        seeds = {index: 1000 * index + 7 for index in range(seeds)} if isinstance(seeds, int) else seeds
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        return SampleRequest("p", ids, seeds, **values)

    return make


@pytest.fixture
def opened(settings, tokenizer, make_request):
    def open_it(**changes):
        values = dataclasses.replace(settings, **changes)
        probe = make_request(1).prompt_ids
        return open_openai(values, "smollm2", "base", tokenizer, {tokenizer.eos_token_id}, probe)

    return open_it


def test_answers(opened, make_request, tokenizer):
    engine = opened()
    # The first request for a prompt fills the server's cache; the last bits of what is read from it differ.
    collect(engine, [make_request(1)])
    found = collect(engine, [make_request(3)])
    assert collect(engine, [make_request(3)]) == found and len(set(found.values())) > 1
    # The most probable tokens are those of their text, and with a stop token at the end they are one more.
    for limit, reason in ((3, "length"), (40, "stop")):
        (answer,) = collect(engine, [make_request(1, SHORT, temperature=0.0, max_new_tokens=limit)]).values()
        tokens = tokenizer(answer.text, add_special_tokens=False)["input_ids"]
        assert (answer.finish_reason, answer.num_tokens) == (reason, len(tokens) + (reason == "stop"))
    (limited,) = collect(engine, [make_request(1, top_k=1)]).values()
    (greedy,) = collect(engine, [make_request(1, temperature=0.0)]).values()
    assert limited.text == greedy.text


def test_log_probabilities(opened, make_request, model):
    from pipeline.engines.loading.model import next_log_probabilities

    request = make_request(1)
    named = opened().first_log_probabilities(request.prompt_ids)
    expected = next_log_probabilities(model, [request.prompt_ids])[0].topk(5).values.tolist()
    assert sorted(named.values(), reverse=True)[:5] == pytest.approx(expected, abs=1e-2)


def test_law(opened, make_request, model, tokenizer):
    checks = law_checks(model, tokenizer, {"p": make_request(1).prompt_ids}, {tokenizer.eos_token_id})
    assert all(check.cells.degrees_of_freedom >= 30 for check in checks)
    check_laws(opened(), checks, seed=0, model="smollm2")


def test_a_killed_server_costs_what_was_under_way(opened, server, make_request):
    request = make_request(12)
    collect(opened(), [make_request(1)])
    whole = collect(opened(), [request])
    kept = {}
    with pytest.raises(EngineError, match="cannot be reached"):
        for group in opened(max_retries=0, max_concurrency=1).sample([request]):
            kept |= {(sample.key, sample.sample_index): sample.generation for sample in group}
            if len(kept) >= 4:
                server.kill()
    server.start()
    collect(opened(), [make_request(1)])
    left = {index: seed for index, seed in request.seeds.items() if ("p", index) not in kept}
    assert 4 <= len(kept) < 12
    assert kept | collect(opened(), [dataclasses.replace(request, seeds=left)]) == whole
