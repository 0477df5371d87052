"""Scores of packed trees against a full forward pass per prefix, for several architectures."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import Gemma2Config, Gemma3TextConfig, GptOssConfig, LlamaConfig, MistralConfig

from pipeline.core.training.batches import collate, into_sequences, merge_examples
from pipeline.core.training.examples import hard_example
from pipeline.core.training.objectives import hard_target_loss
from pipeline.core.tries.token_tree import merge_sequences
from pipeline.core.tries.trie import build_trie
from pipeline.engines.loading.model import add_lora, position_logits
from pipeline.engines.scoring.tree_attention import supports_tree_attention, tree_attention_mask
from pipeline.engines.scoring.tree_scorer import TreeScorer, trie_tree
from pipeline.engines.training.fit import backward_pass
from pipeline.errors import ModelError
from tests.engines.scoring.models import SHAPE, plain_laws, tiny

pytestmark = pytest.mark.slow

END = 99
HYBRID = dict(sliding_window=5, layer_types=["sliding_attention", "full_attention"])
CONFIGS = {
    "llama": LlamaConfig(**SHAPE),
    "gemma3": Gemma3TextConfig(**SHAPE, **HYBRID),
    "gemma2": Gemma2Config(**SHAPE, **HYBRID),
    "mistral": MistralConfig(**SHAPE, sliding_window=5),
    "gpt_oss": GptOssConfig(**SHAPE, **HYBRID, num_local_experts=4, num_experts_per_tok=2),
}
PROMPT = list(range(10, 23))


def named(name, attention="sdpa", dtype=torch.float32):
    return tiny(copy.deepcopy(CONFIGS[name]), "eager" if name == "gpt_oss" else attention, dtype)


@pytest.fixture(scope="module")
def trie():
    rng = np.random.default_rng(0)
    sequences = sorted({tuple(rng.integers(0, 5, rng.integers(0, 7)).tolist()) for _ in range(40)})
    return build_trie(sequences, np.full(len(sequences), 1 / len(sequences)), END)


def plain(model, paths):
    """float64[len(paths), V] log-probabilities after prompt and path."""
    return np.stack([plain_laws(model, PROMPT + list(path))[-1] for path in paths])


def plain_edges(model, trie):
    tree = trie_tree(trie)
    full = plain(model, [tree.path(prefix - 1) for prefix in range(trie.num_prefixes)])
    return full[np.repeat(np.arange(trie.num_prefixes), np.diff(trie.edge_offsets)), trie.edge_tokens]


@pytest.mark.parametrize("name", CONFIGS)
def test_equals_separate_sequences(name, trie):
    model = named(name)
    scorer = TreeScorer(model, token_budget=9)
    prompt, expected = scorer.prefill(PROMPT), plain_edges(model, trie)
    # Twice: scoring leaves the prompt's cache as it was.
    for _ in range(2):
        np.testing.assert_allclose(scorer.score_trie(prompt, trie), expected, atol=2e-5)


@pytest.mark.parametrize("positions_per_call", [1, 10**4])
def test_shared_candidates_and_paths(positions_per_call, monkeypatch):
    monkeypatch.setattr("pipeline.engines.scoring.token_scores.POSITIONS_PER_CALL", positions_per_call)
    model = named("gemma3")
    scorer, tokens = TreeScorer(model, token_budget=6), np.array([3, 50, 1, 99])
    paths = [(1, 2, 3), (), (2,), (1, 2, 4), (2, 2, 2, 2), (1,)]
    score = scorer.path_scorer(PROMPT, tokens)
    for asked in (paths, paths[::-1], [()]):
        np.testing.assert_allclose(score(asked), plain(model, asked)[:, tokens], atol=2e-5)
    tree, _ = merge_sequences(paths)
    offsets, candidates = np.arange(len(tree) + 2) * len(tokens), np.tile(tokens, len(tree) + 1)
    values = scorer.score_edges(scorer.prefill(PROMPT), tree, offsets, candidates).reshape(-1, len(tokens))
    expected = plain(model, [[], *(tree.path(node) for node in range(len(tree)))])[:, tokens]
    np.testing.assert_allclose(values, expected, atol=2e-5)
    assert values.dtype == np.float64


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", CONFIGS)
def test_the_probe_accepts_what_works_and_rejects_an_ignored_mask(name, dtype, attention):
    model = named(name, attention, dtype)
    model.train()
    assert supports_tree_attention(model) and model.training
    forward = model.forward
    model.forward = lambda *args, attention_mask=None, **kwargs: forward(*args, **kwargs)
    assert not supports_tree_attention(model)
    with pytest.raises(ModelError, match="takes no masks for token trees"):
        TreeScorer(model)


def test_attention_that_has_no_mask():
    model = named("llama")
    model.config._attn_implementation = "flash_attention_2"
    assert not supports_tree_attention(model)
    model.config._attn_implementation = "sdpa"
    model.config.layer_types = ["linear_attention", "full_attention"]
    with pytest.raises(ValueError, match="linear_attention"):
        tree_attention_mask(model, torch.ones(1, 1, 2, 2, dtype=torch.bool), torch.arange(2)[None])
    assert not supports_tree_attention(model)


@pytest.mark.parametrize("name", CONFIGS)
def test_padded_rows_without_cache_as_in_training(name):
    model = named(name)
    prompts, answers = [PROMPT, PROMPT[:6]], [[[1, 2, 3, END], [1, 4, END], [5, END]], [[7, END]]]
    examples = [hard_example(prompt, each) for prompt, each in zip(prompts, answers, strict=True)]
    batch = collate(examples, 0)
    mask = tree_attention_mask(model, batch.allowed, batch.position_ids)
    logits = model(input_ids=batch.input_ids, attention_mask=mask, position_ids=batch.position_ids).logits
    logits.sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    with torch.no_grad():
        for row, (prompt, example) in enumerate(zip(prompts, examples, strict=True)):
            for node in range(-1, len(example.tree)):
                alone = model(input_ids=torch.tensor([prompt + example.tree.path(node)])).logits[0, -1]
                torch.testing.assert_close(logits[row, len(prompt) + node], alone, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("name", CONFIGS)
def test_packed_prompts_give_the_loss_and_gradients_of_separate_rows(name, model_config):
    config = replace(model_config, lora_target_modules=("q_proj", "k_proj", "v_proj", "o_proj"))
    adapted = add_lora(named(name), config, rank=3, alpha=6, dropout=0.0)
    for place, parameter in enumerate(value for value in adapted.parameters() if value.requires_grad):
        torch.nn.init.normal_(parameter, std=0.3, generator=torch.Generator().manual_seed(place))
    prompts, answers = (
        [PROMPT, PROMPT[:6], [*PROMPT[:5], 9, 8]],
        [[[1, 2, 3, END], [1, 4, END]], [[7, END]], [[1, END]]],
    )
    examples = [hard_example(*pair) for pair in zip(prompts, answers, strict=True)]
    found = []
    for rows in ([part for each in examples for part in into_sequences(each)], [merge_examples(examples)]):
        adapted.zero_grad()
        loss = backward_pass(position_logits(adapted), collate(rows, 0, 3.0), hard_target_loss, 1.0, 1 << 20)
        gradients = [value.grad for value in adapted.parameters() if value.requires_grad]
        found.append((loss, torch.cat([gradient.flatten() for gradient in gradients])))
    (loss, gradient), (packed_loss, packed_gradient) = found
    torch.testing.assert_close(packed_loss, loss, rtol=1e-5, atol=0)
    assert gradient.norm() > 0.01 and (packed_gradient - gradient).norm() < 1e-4 * gradient.norm()
