"""Samples of many prompts in one batch against each prompt alone."""

import itertools

import pytest
import torch

from pipeline.engines.sampling.generate import generate, generate_prompts, sample_seeds
from pipeline.engines.sampling.samplers import GenerationStatistics
from tests.engines.sampling.test_samplers import STOPS, VOCABULARY, Numbers, small_model  # noqa: F401

pytestmark = pytest.mark.slow

LENGTHS = (11, 3, 20, 6, 1, 14)


def prompts(times=1):
    generator = torch.Generator().manual_seed(5)
    return [torch.randint(20, VOCABULARY, (length,), generator=generator).tolist() for length in LENGTHS * times]


def together(model, requests, seeds, strategy="rows", **settings):
    found = {}
    for finished in generate_prompts(model, Numbers(), requests, seeds, strategy=strategy, **settings):
        for prompt, index, answer in finished:
            assert (prompt, index) not in found
            found[prompt, index] = answer
    return [[found[prompt, index] for index in range(len(own))] for prompt, own in enumerate(seeds)]


@pytest.mark.parametrize("law", [{"temperature": 1.5, "top_p": 1.0}, {"temperature": 2.0, "top_p": 0.8}])
def test_samples_are_those_of_each_prompt_alone(small_model, law):  # noqa: F811
    requests = prompts()
    # Prompts with different numbers of samples, one with none.
    seeds = [sample_seeds(0, ("prompts", str(place)), count) for place, count in enumerate((4, 7, 1, 0, 5, 3))]
    settings = {"stop_ids": STOPS, "max_new_tokens": 9, **law}
    expected = [
        generate(small_model, Numbers(), ids, own, batch_size=3, strategy="rows", **settings)
        for ids, own in zip(requests, seeds, strict=True)
    ]
    assert {answer.finish_reason for own in expected for answer in own} == {"stop", "length"}
    for strategy, batch_size in itertools.product(("rows", "merged"), (1, 4, 100)):
        found = together(small_model, requests, seeds, strategy, batch_size=batch_size, **settings)
        assert found == expected, (strategy, batch_size)


def test_rows_stay_full_over_prompts(small_model):  # noqa: F811
    requests, cost = prompts(5), GenerationStatistics()
    seeds = [sample_seeds(1, ("full", str(place)), 4) for place in range(len(requests))]
    widths, lengths = [], []

    def record(module, args, kwargs):
        if kwargs.get("past_key_values") is not None:
            widths.append(len(kwargs["input_ids"]))
            lengths.append(kwargs["past_key_values"].get_seq_length())

    handle = small_model.register_forward_pre_hook(record, with_kwargs=True)
    answers = together(
        small_model,
        requests,
        seeds,
        stop_ids=STOPS,
        max_new_tokens=10,
        temperature=1.5,
        top_p=1.0,
        batch_size=16,
        statistics=cost,
    )
    handle.remove()
    assert max(widths) <= 16
    decoded = sum(answer.num_tokens - 1 for own in answers for answer in own)
    # A prompt is run once; every further token takes one row of one pass.
    assert cost.positions >= sum(map(len, requests)) + decoded
    if small_model.config.model_type == "llama":
        # Rows are refilled: nearly all of what runs is wanted, and stale slots do not pile up.
        assert cost.positions <= sum(map(len, requests)) + decoded * 1.25
        assert max(lengths) <= max(LENGTHS) + 2 * 10


def test_nothing_to_do(small_model):  # noqa: F811
    settings = {"stop_ids": STOPS, "max_new_tokens": 4, "temperature": 1.0, "top_p": 1.0, "batch_size": 4}
    assert together(small_model, prompts()[:2], [[], []], **settings) == [[], []]
    # Every sample ends with its first token.
    everything = {**settings, "stop_ids": set(range(VOCABULARY))}
    answers = together(small_model, prompts()[:2], [[1, 2], [3]], **everything)
    assert [[answer.num_tokens for answer in own] for own in answers] == [[1, 1], [1]]


SETTINGS = {"temperature": (1.0, 0.6, 1.5, 1.0), "top_p": (1.0, 1.0, 0.8, 0.5), "top_k": (None, None, 9, None)}


@pytest.mark.parametrize("strategy", ["merged", "rows"])
def test_a_prompt_under_several_decoding_settings_is_run_once(small_model, strategy):  # noqa: F811
    """And its samples are bit for bit those of a call for each setting."""
    distinct = prompts()[:3]
    requests = [ids for ids in distinct for _ in SETTINGS["top_k"]]
    seeds = [sample_seeds(2, ("settings", str(place)), 8) for place in range(len(requests))]
    common = {"stop_ids": STOPS, "max_new_tokens": 7, "batch_size": 6, "strategy": strategy}
    cost, apart = GenerationStatistics(), GenerationStatistics()
    laws = {name: list(values) * len(distinct) for name, values in SETTINGS.items()}
    found = together(small_model, requests, seeds, **common, **laws, statistics=cost)
    for place, (ids, own) in enumerate(zip(requests, seeds, strict=True)):
        law = {name: values[place] for name, values in laws.items()}
        assert found[place] == generate(small_model, Numbers(), ids, own, **common, **law, statistics=apart), place
    saved = apart.positions - sum(map(len, distinct)) * (len(SETTINGS["top_k"]) - 1) - cost.positions
    # Merged, equal prefixes are run once for all settings as well.
    assert saved > 0 if strategy == "merged" else cost.forward_passes < apart.forward_passes
