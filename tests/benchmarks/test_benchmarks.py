"""The benchmarks run, and what they compare computes the same; the figures are not checked."""

import numpy as np
import pytest
import torch

from benchmarks import training, tries
from benchmarks.measure import in_subprocess
from benchmarks.workload import make_model, make_workload
from pipeline.core.laws.discretize import discretize_all
from pipeline.core.prompts.structured import build_split
from pipeline.engines.loading.digit_rule import find_digit_tokens, tries_of
from pipeline.engines.loading.model import position_logits

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("max_group", [1, 3])
def test_the_dictionary_of_tuples_holds_the_same_targets(max_group):
    expected = tries.baseline(51, max_group, every=97)["keep"]
    tokenizer = tries.tokenizer_of(max_group)
    laws = [prompt.law for prompt in build_split("train")][::97]
    spaces = dict(enumerate(discretize_all(laws, num_decimals=tries.NUM_DECIMALS, max_bins=51)))
    rule = find_digit_tokens(tokenizer, tokenizer.eos_token_id, tries.NUM_DECIMALS)
    for (index, trie), targets in zip(tries_of(tokenizer, rule, tokenizer.eos_token_id, spaces), expected, strict=True):
        assert trie.num_prefixes == len(targets), laws[index]
        for prefix, children in targets.items():
            tokens, probabilities = trie.next_tokens(prefix)
            assert tokens.tolist() == sorted(children)
            np.testing.assert_allclose(probabilities, [children[token] for token in tokens.tolist()], atol=1e-9)


def test_measurement_in_a_process_of_its_own():
    result = in_subprocess("tests.allocation", "allocate", megabytes=80)
    assert result["size"] == 80 and "keep" not in result
    assert 70 < result["retained_mb"] < 120 and result["seconds"] > 0
    with pytest.raises(RuntimeError, match="ended without a result"):
        in_subprocess("tests.allocation", "allocate", megabytes=-1)


@pytest.mark.parametrize("case", training.CASES)
def test_implementations_of_a_step_have_the_same_loss_and_gradient(case):
    logits_at, workload, results = position_logits(make_model("embedded")), make_workload(1, 11), []
    for implementation in training.CASES[case]:
        step, _ = training.make_step(case, implementation, logits_at, workload)
        logits_at.model.zero_grad()
        loss = step()
        gradients = [parameter.grad.clone() for parameter in logits_at.model.parameters() if parameter.requires_grad]
        results.append((loss, torch.cat([gradient.flatten() for gradient in gradients])))
    for loss, gradient in results[1:]:
        assert loss == pytest.approx(results[0][0], rel=1e-4)
        assert (gradient - results[0][1]).norm() < 1e-3 * results[0][1].norm()
