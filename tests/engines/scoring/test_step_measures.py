"""Measures along replies against those of single laws, taken one by one."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.core.semantics.uncertainty import token_measures
from pipeline.engines.loading.model import position_logits
from pipeline.engines.scoring import step_measures
from pipeline.engines.scoring.step_measures import StepMeasures, law_measures

PROMPT = [7, 12, 30, 5]
REPLIES = [[9], [4, 11, 8, 2], [4, 11], [30, 31, 32, 33, 34, 35, 36]]


def expected(law):
    return {name: value for name, value in token_measures(law).items() if not name.startswith("nucleus_size")}


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 300), st.floats(0, 8), st.integers(0, 2**16))
def test_measures_are_those_of_each_law(vocabulary, scale, seed):
    logits = np.float32(scale * np.random.default_rng(seed).normal(size=(3, vocabulary)))
    found = law_measures(torch.from_numpy(logits))
    for place, row in enumerate(logits.astype(np.float64)):
        law = np.exp(row - row.max())
        for name, value in expected(law / law.sum()).items():
            assert found[name][place].item() == pytest.approx(value, abs=1e-9), name


def test_a_certain_law_and_one_that_leaves_all_open():
    logits = torch.zeros(2, 128)
    logits[0, 5] = 1e4
    found = law_measures(logits)
    for name, values in found.items():
        certain, undecided = (0, -np.log(128)) if name == "log_top_probability" else (0, 1)
        assert values.tolist() == pytest.approx([certain, undecided], abs=1e-12), name


@pytest.mark.parametrize(("tokens_per_pass", "laws_per_call"), [(4096, 64), (15, 3), (1, 1)])
def test_means_are_over_the_tokens_of_each_reply(model, monkeypatch, tokens_per_pass, laws_per_call):
    monkeypatch.setattr(step_measures, "LAWS_PER_CALL", laws_per_call)
    found = StepMeasures(position_logits(model), tokens_per_pass).means(PROMPT, REPLIES)
    for place, reply in enumerate(REPLIES):
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([[*PROMPT, *reply]])).logits[0].double()
        laws = logits.softmax(dim=-1).numpy()[len(PROMPT) - 1 : -1]
        assert len(laws) == len(reply)
        for name, values in found.items():
            assert values.shape == (len(REPLIES),)
            wanted = np.mean([expected(law)[name] for law in laws])
            assert values[place] == pytest.approx(wanted, abs=2e-5), name
