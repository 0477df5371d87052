"""Stop strings end an answer of greedy decoding and are no part of it."""

import numpy as np
import pytest
from transformers import LlamaConfig

from pipeline.engines.sampling.generate import generate_prompts
from pipeline.engines.sampling.samplers import SamplingLaw
from tests.engines.scoring.models import SHAPE, tiny

SHAPE = SHAPE | {"vocab_size": 97, "num_hidden_layers": 3}


@pytest.fixture(scope="module")
def model():
    return tiny(LlamaConfig(**SHAPE))


def decode(model, tokenizer, prompts, stops=()):
    batches = generate_prompts(
        model,
        tokenizer,
        prompts,
        [[0]] * len(prompts),
        [SamplingLaw(1.0, 1.0, 1)] * len(prompts),
        stop_ids=set(),
        max_new_tokens=12,
        batch_size=8,
        stops=stops,
    )
    answers = {place: answer for batch in batches for place, _, answer in batch}
    return [answers[index] for index in range(len(prompts))]


def prompts_of(vocabulary):
    rng = np.random.default_rng(0)
    return [rng.integers(5, vocabulary, size).tolist() for size in (3, 17, 1, 9, 30, 9)]


def test_stop_strings_end_an_answer_and_are_no_part_of_it(model, tokenizer):
    prompts = prompts_of(model.config.vocab_size)
    free = [answer.text for answer in decode(model, tokenizer, prompts)]
    # Two characters from the middle of an answer that can be told from what comes before.
    text = max(free, key=len)
    stop = text[len(text) // 2 : len(text) // 2 + 2]
    for whole, answer in zip(free, decode(model, tokenizer, prompts, stops=("", stop)), strict=True):
        end = whole.find(stop)
        assert answer.text == (whole if end < 0 else whole[:end])
        assert answer.finish_reason == ("length" if end < 0 else "stop")
    (early,) = decode(model, tokenizer, prompts[1:2], stops=(free[1][0],))
    assert (early.text, early.finish_reason) == ("", "stop") and early.num_tokens < 12
