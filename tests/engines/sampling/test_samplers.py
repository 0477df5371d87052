"""Samples in shared rows against decoding every sample alone without a cache."""

import contextlib

import numpy as np
import pytest
import torch
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GptOssConfig,
    GptOssForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
)
from transformers.generation import TopKLogitsWarper, TopPLogitsWarper

from pipeline.core.sampling import sample_tokens
from pipeline.engines.sampling.generate import Generation, generate_prompts, sample_seeds
from pipeline.engines.sampling.samplers import SamplingLaw

pytestmark = pytest.mark.slow

PROMPT = [20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30]
VOCABULARY = 48
STOPS = {3, 7, 11, 12, 17, 26, 35}
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "attn_implementation": "sdpa",
    "initializer_range": 0.3,
}


class Numbers:
    """A tokenizer that writes token ids."""

    def decode(self, tokens, **_):
        return " ".join(map(str, tokens))


@contextlib.contextmanager
def passes(model):
    """Rows and tokens of each forward pass of the model while the context is open."""
    sizes = []
    hook = model.get_input_embeddings().register_forward_pre_hook(lambda _, ids: sizes.append(tuple(ids[0].shape)))
    yield sizes
    hook.remove()


@pytest.fixture(scope="module", params=["llama", "gemma 8", "gemma 14", "gpt-oss 8"])
def small_model(request):
    torch.manual_seed(0)
    if request.param == "llama":
        return LlamaForCausalLM(LlamaConfig(num_hidden_layers=2, **SIZES)).eval()
    # The prompt is longer than one window and shorter than the other.
    window = int(request.param.split()[1])
    layers = ["sliding_attention", "full_attention", "sliding_attention"]
    sizes = SIZES | {"num_hidden_layers": 3, "sliding_window": window, "layer_types": layers}
    if request.param.startswith("gemma"):
        return Gemma3ForCausalLM(Gemma3TextConfig(query_pre_attn_scalar=8, **sizes)).eval()
    model = GptOssForCausalLM(GptOssConfig(num_local_experts=4, **(sizes | {"attn_implementation": "eager"}))).eval()
    assert all(layer.self_attn.sinks.abs().max() > 0.1 for layer in model.model.layers)
    return model


def alone(model, prompt, seeds, *, stop_ids, max_new_tokens, temperature, top_p):
    """One full forward pass per sample and step, no cache."""
    results = []
    for seed in seeds:
        tokens = []
        for value in np.random.Generator(np.random.Philox(seed)).random(max_new_tokens):
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([prompt + tokens]), use_cache=False).logits[:, -1]
            tokens.append(int(sample_tokens(logits, torch.tensor([value]), temperature, top_p)))
            if tokens[-1] in stop_ids:
                break
        stopped = tokens[-1] in stop_ids
        text = Numbers().decode(tokens[:-1] if stopped else tokens)
        results.append(Generation(seed, text, len(tokens), "stop" if stopped else "length"))
    return results


LAWS = [{"temperature": 1.5, "top_p": 1.0}, {"temperature": 2.0, "top_p": 0.8}]


LENGTHS = (11, 3, 20, 6, 1, 14)


def prompts(times=1):
    generator = torch.Generator().manual_seed(5)
    return [torch.randint(20, VOCABULARY, (length,), generator=generator).tolist() for length in LENGTHS * times]


def together(model, requests, seeds, laws, **settings):
    found = {}
    for finished in generate_prompts(model, Numbers(), requests, seeds, laws, **settings):
        for prompt, index, answer in finished:
            assert (prompt, index) not in found
            found[prompt, index] = answer
    return [[found[prompt, index] for index in range(len(own))] for prompt, own in enumerate(seeds)]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("batch_size", [1, 2, 4, 100])
def test_samples_are_those_of_each_prompt_alone(small_model, law, batch_size):
    requests = prompts()
    # Prompts with different numbers of samples, one with none.
    seeds = [sample_seeds(0, ("prompts", str(place)), count) for place, count in enumerate((4, 7, 1, 0, 5, 3))]
    settings = {"stop_ids": STOPS, "max_new_tokens": 9}
    expected = [alone(small_model, ids, own, **law, **settings) for ids, own in zip(requests, seeds, strict=True)]
    assert {answer.finish_reason for own in expected for answer in own} == {"stop", "length"}
    laws = [SamplingLaw(**law)] * len(requests)
    assert together(small_model, requests, seeds, laws, batch_size=batch_size, **settings) == expected


@pytest.mark.parametrize("batch_size", [5, 64, 1000])
def test_every_unfinished_prefix_is_run_once(small_model, batch_size):
    settings = {"stop_ids": STOPS, "max_new_tokens": 6, "batch_size": batch_size}
    requests = [PROMPT, PROMPT[:4]]
    seeds = [sample_seeds(0, ("prefixes", str(place)), 300) for place in range(2)]
    with passes(small_model) as sizes:
        answers = together(small_model, requests, seeds, [SamplingLaw(1.0, 1.0)] * 2, **settings)
    prefixes = set()
    for place, own in enumerate(answers):
        for answer in own:
            tokens = answer.text.split()
            # The token behind the last kept prefix ended the answer: the stop token, or the one at the limit.
            ends = len(tokens) if answer.finish_reason == "stop" else len(tokens) - 1
            prefixes.update((place, *tokens[:end]) for end in range(1, ends + 1))
    assert sum(rows * tokens for rows, tokens in sizes) == sum(map(len, requests)) + len(prefixes)
    assert max(rows for rows, _ in sizes) <= batch_size
    assert len(prefixes) < sum(answer.num_tokens for own in answers for answer in own) * 0.8


SETTINGS = (SamplingLaw(1.0, 1.0), SamplingLaw(0.6, 1.0), SamplingLaw(1.5, 0.8, 9), SamplingLaw(1.0, 0.5))


def test_a_prompt_under_several_decoding_settings_is_run_once(small_model):
    """And its samples are those of a call for each setting."""
    distinct = prompts()[:3]
    requests = [ids for ids in distinct for _ in SETTINGS]
    seeds = [sample_seeds(2, ("settings", str(place)), 8) for place in range(len(requests))]
    common = {"stop_ids": STOPS, "max_new_tokens": 7, "batch_size": 6}
    laws = SETTINGS * len(distinct)
    with passes(small_model) as sizes:
        found = together(small_model, requests, seeds, laws, **common)
    with passes(small_model) as apart:
        for place, (ids, own, law) in enumerate(zip(requests, seeds, laws, strict=True)):
            assert [found[place]] == together(small_model, [ids], [own], [law], **common), place
    # Equal prefixes are run once for all settings as well.
    prompts_alone = sum(map(len, distinct)) * (len(SETTINGS) - 1)
    assert sum(rows * n for rows, n in sizes) < sum(rows * n for rows, n in apart) - prompts_alone


def test_top_k_and_top_p_cut_as_in_transformers():
    rng = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 50, generator=rng) * 2
    logits[1, :10] = 5.0
    for top_k, top_p in ((7, 1.0), (7, 0.6), (60, 1.0)):
        kept = TopKLogitsWarper(top_k)(None, logits / 0.8)
        law = (TopPLogitsWarper(top_p)(None, kept) if top_p < 1 else kept).double().softmax(-1)
        uniforms = torch.linspace(0, 1, 4001, dtype=torch.float64)[:-1] + 1 / 8000
        for row in range(3):
            drawn = sample_tokens(logits, uniforms, 0.8, top_p, torch.full((4000,), row), top_k)
            shares = torch.bincount(drawn, minlength=50) / 4000
            # Which of equally probable tokens a nucleus keeps is open.
            assert torch.isclose(shares.sort().values, law[row].float().sort().values, atol=1e-3).all()
