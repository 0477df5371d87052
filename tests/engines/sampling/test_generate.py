"""Sampling: the law asked for, streams of one's own, stopping."""

import numpy as np
import pytest
import torch

from pipeline.core.tries.trie import build_trie
from pipeline.engines.loading.model import position_logits
from pipeline.engines.sampling.generate import generate, sample_seeds
from pipeline.engines.scoring.token_scores import score_paths

PROMPT = [20, 21, 22, 23, 24]


def sample(model, tokenizer, count, **changes):
    settings = {
        "stop_ids": {tokenizer.eos_token_id},
        "max_new_tokens": 3,
        "temperature": 1.0,
        "top_p": 1.0,
        "batch_size": 64,
    }
    settings.update(changes)
    return generate(model, tokenizer, PROMPT, sample_seeds(0, ("test",), count), **settings)


def first_step_law(model):
    with torch.no_grad():
        return torch.softmax(model(input_ids=torch.tensor([PROMPT])).logits[0, -1].double(), -1).numpy()


def test_first_tokens_follow_the_softmax_whatever_generation_config_says(model, tokenizer):
    # The tiny checkpoint's generation_config asks for top_k 1 at temperature 0.1.
    assert model.generation_config.top_k == 1

    class Recorder:
        """Writes the token ids."""

        def decode(self, tokens, **_):
            return " ".join(map(str, tokens))

    answers = generate(
        model,
        Recorder(),
        PROMPT,
        sample_seeds(3, ("law",), 4000),
        stop_ids=set(),
        max_new_tokens=1,
        temperature=1.0,
        top_p=1.0,
        batch_size=1000,
    )
    law = first_step_law(model)
    counts = np.bincount([int(answer.text) for answer in answers], minlength=len(law))
    keep = law * 4000 >= 5
    observed = np.append(counts[keep], counts[~keep].sum())
    expected = np.append(law[keep], law[~keep].sum()) * 4000
    statistic = ((observed - expected) ** 2 / expected).sum()
    # Chi-square with k degrees of freedom: mean k, standard deviation sqrt(2k); four of them.
    assert statistic < keep.sum() + 4 * np.sqrt(2 * keep.sum())


def test_result_does_not_depend_on_batch_size(model, tokenizer):
    results = [sample(model, tokenizer, 37, batch_size=size, max_new_tokens=8) for size in (1, 5, 37)]
    assert results[0] == results[1] == results[2]
    assert len({generation.text for generation in results[0]}) > 30


def test_the_prompt_is_run_once_whatever_the_batch_size(model, tokenizer, monkeypatch):
    widths, forward = [], type(model).forward

    def counted(self, *args, **kwargs):
        widths.append(kwargs["input_ids"].shape[1])
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(type(model), "forward", counted)
    sample(model, tokenizer, 30, batch_size=7, max_new_tokens=4)
    assert widths.count(len(PROMPT)) == 1 and set(widths) == {1, len(PROMPT)}


def test_cached_decoding_equals_full_forward_passes(model, tokenizer):
    from pipeline.core.sampling import sample_tokens

    seeds = sample_seeds(0, ("test",), 6)
    cached = sample(model, tokenizer, 6, max_new_tokens=5, stop_ids={-1})
    for seed, generation in zip(seeds, cached, strict=True):
        uniforms = np.random.Generator(np.random.Philox(seed)).random(5)
        ids = list(PROMPT)
        for value in uniforms:
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([ids])).logits[:, -1]
            ids.append(int(sample_tokens(logits, torch.tensor([value]))))
        assert tokenizer.decode(ids[len(PROMPT) :], skip_special_tokens=True) == generation.text


def test_stopping(model, tokenizer):
    stops = set(range(0, 298, 4))
    results = sample(model, tokenizer, 80, stop_ids=stops, max_new_tokens=6)
    assert {generation.finish_reason for generation in results} == {"stop", "length"}
    for generation in results:
        assert generation.num_tokens == 6 or generation.finish_reason == "stop"
    single = sample(model, tokenizer, 80, stop_ids=stops, max_new_tokens=6, batch_size=1)
    assert single == results


def test_seeds_are_distinct_between_prompts_and_samples():
    seeds = [seed for name in ("a", "b", "c") for seed in sample_seeds(0, ("structured", "m", "base", name), 500)]
    assert len(set(seeds)) == 1500


def test_scores_are_the_kl_of_the_full_distribution(model):
    trie = build_trie([[30], [31, 32]], np.array([0.25, 0.75]), 2)
    scores = score_paths(position_logits(model), PROMPT, trie, 5, np.random.default_rng(0), 0, "cpu")
    rng = np.random.default_rng(0)
    for divergences in scores:
        tokens, _ = trie.sample_path(rng)
        assert len(divergences) == len(tokens)
        for k in range(len(tokens)):
            with torch.no_grad():
                prefix = PROMPT + tokens[:k].tolist()
                log_law = torch.log_softmax(model(input_ids=torch.tensor([prefix])).logits[0, -1].double(), -1)
            ids, target = trie.next_tokens(tokens[:k].tolist())
            expected = sum(q * (np.log(q) - log_law[int(i)].item()) for i, q in zip(ids, target, strict=True))
            assert divergences[k] == pytest.approx(expected, rel=1e-4)
