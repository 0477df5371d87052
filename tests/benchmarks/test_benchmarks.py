"""What a benchmark compares computes the same."""

import numpy as np
import pytest

from benchmarks import tries
from pipeline.core.laws.discretize import discretize_all
from pipeline.core.prompts.structured import build_split
from pipeline.engines.loading.digit_rule import find_digit_tokens, tries_of

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
