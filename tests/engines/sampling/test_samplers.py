"""Merged rows and refilled rows against decoding every sample alone without a cache."""

import numpy as np
import pytest
import torch
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, LlamaConfig, LlamaForCausalLM
from transformers.generation import TopKLogitsWarper, TopPLogitsWarper

from pipeline.core.sampling import sample_tokens
from pipeline.engines.sampling.generate import Generation, generate, sample_seeds
from pipeline.engines.sampling.samplers import GenerationStatistics

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


@pytest.fixture(scope="module", params=["llama", "gemma 8", "gemma 14"])
def small_model(request):
    torch.manual_seed(0)
    if request.param == "llama":
        return LlamaForCausalLM(LlamaConfig(num_hidden_layers=2, **SIZES)).eval()
    # The prompt is longer than one window and shorter than the other.
    window = int(request.param.split()[1])
    layers = ["sliding_attention", "full_attention", "sliding_attention"]
    config = Gemma3TextConfig(
        num_hidden_layers=3, sliding_window=window, layer_types=layers, query_pre_attn_scalar=8, **SIZES
    )
    return Gemma3ForCausalLM(config).eval()


def alone(model, seeds, *, stop_ids, max_new_tokens, temperature, top_p):
    """One full forward pass per sample and step, no cache."""
    results = []
    for seed in seeds:
        tokens = []
        for value in np.random.Generator(np.random.Philox(seed)).random(max_new_tokens):
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([PROMPT + tokens]), use_cache=False).logits[:, -1]
            tokens.append(int(sample_tokens(logits, torch.tensor([value]), temperature, top_p)))
            if tokens[-1] in stop_ids:
                break
        stopped = tokens[-1] in stop_ids
        text = Numbers().decode(tokens[:-1] if stopped else tokens)
        results.append(Generation(seed, text, len(tokens), "stop" if stopped else "length"))
    return results


@pytest.mark.parametrize("law", [{"temperature": 1.5, "top_p": 1.0}, {"temperature": 2.0, "top_p": 0.8}])
def test_every_strategy_and_batch_size_gives_what_each_sample_gives_alone(small_model, law):
    seeds = sample_seeds(0, ("alone",), 16)
    settings = {"stop_ids": STOPS, "max_new_tokens": 9, **law}
    expected = alone(small_model, seeds, **settings)
    assert {generation.finish_reason for generation in expected} == {"stop", "length"}
    assert len({generation.num_tokens for generation in expected}) > 4
    for strategy in ("merged", "rows"):
        for batch_size in (1, 3, 100):
            found = generate(
                small_model, Numbers(), PROMPT, seeds, batch_size=batch_size, strategy=strategy, **settings
            )
            assert found == expected, (strategy, batch_size)


def test_a_sample_does_not_depend_on_the_others_nor_on_their_order(small_model):
    seeds = sample_seeds(0, ("order",), 30)
    settings = {"stop_ids": STOPS, "max_new_tokens": 8, "temperature": 1.0, "top_p": 1.0, "batch_size": 4}
    for strategy in ("merged", "rows"):
        found = generate(small_model, Numbers(), PROMPT, seeds, strategy=strategy, **settings)
        chosen = [17, 3, 29, 8, 3]
        again = generate(
            small_model, Numbers(), PROMPT, [seeds[index] for index in chosen], strategy=strategy, **settings
        )
        assert again == [found[index] for index in chosen]
        assert generate(small_model, Numbers(), PROMPT, [], strategy=strategy, **settings) == []


@pytest.mark.parametrize("batch_size", [5, 64, 1000])
def test_merged_runs_every_unfinished_prefix_once(small_model, batch_size):
    cost, seeds = GenerationStatistics(), sample_seeds(0, ("prefixes",), 300)
    widest = []
    handle = small_model.register_forward_pre_hook(
        lambda module, args, kwargs: widest.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    answers = generate(
        small_model,
        Numbers(),
        PROMPT,
        seeds,
        stop_ids=STOPS,
        max_new_tokens=6,
        temperature=1.0,
        top_p=1.0,
        batch_size=batch_size,
        statistics=cost,
    )
    handle.remove()
    prefixes = set()
    for answer in answers:
        tokens = answer.text.split()
        # The token behind the last kept prefix ended the answer: the stop token, or the one at the limit.
        ends = len(tokens) if answer.finish_reason == "stop" else len(tokens) - 1
        prefixes.update(tuple(tokens[:end]) for end in range(1, ends + 1))
    assert cost.positions == len(PROMPT) + len(prefixes)
    assert cost.forward_passes == len(widest)
    assert max(widest) <= batch_size
    assert len(prefixes) < sum(answer.num_tokens for answer in answers) * 0.8


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


@pytest.mark.parametrize("top_p", [1.0, 0.7])
def test_samples_that_share_a_row_get_the_tokens_of_rows_of_their_own(top_p):
    rng = torch.Generator().manual_seed(0)
    logits = torch.randn(7, 100, generator=rng) * 3
    logits[2, 60:] = -torch.inf
    uniforms = torch.rand(500, generator=rng, dtype=torch.float64)
    uniforms[:4] = torch.tensor([0.0, 1 - 2**-53, 0.5, 1 - 2**-53], dtype=torch.float64)
    rows = torch.randint(0, 7, (500,), generator=rng)
    rows[:2] = 2
    shared = sample_tokens(logits, uniforms, 0.9, top_p, rows)
    own = sample_tokens(logits[rows], uniforms, 0.9, top_p)
    assert torch.equal(shared, own)
    assert shared[1] < 60
    if top_p == 1.0:
        cumulative = torch.softmax(logits.double() / 0.9, -1).cumsum(-1)[rows]
        threshold = uniforms[:, None] * cumulative[:, -1:]
        exact = torch.searchsorted(cumulative, threshold, right=True).squeeze(1)
        inner = uniforms < 0.999
        assert torch.equal(shared[inner], exact[inner])


def test_every_sample_has_a_seed_of_its_own():
    names = [
        (axis, model, condition, prompt) for axis in "ab" for model in "mn" for condition in "st" for prompt in "xy"
    ]
    seeds = [seed for root in (0, 1) for each in names for seed in sample_seeds(root, each, 50)]
    assert len(set(seeds)) == 2 * 16 * 50
    assert sample_seeds(0, names[0], 60)[:50] == seeds[:50]
