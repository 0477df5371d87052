"""Digit rules are found, verified against the tokenizer, and not trusted where it disagrees."""

import numpy as np
import pytest
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from pipeline.core.laws.discretize import discretize
from pipeline.core.laws.family import Law
from pipeline.core.tries.trie import build_trie
from pipeline.engines.loading.chat import encode_answers
from pipeline.engines.loading.digit_rule import find_digit_tokens, tries_of

GROUPS = [f"{value:0{size}d}" for size in (1, 2, 3) for value in range(10**size)]


def word_tokenizer(pattern: str, words: list[str]) -> PreTrainedTokenizerFast:
    """A tokenizer that splits by a pattern and knows the given words."""
    vocabulary = {word: index for index, word in enumerate(["</s>", "?", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "isolated")
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>", unk_token="?")


@pytest.fixture(scope="module")
def single():
    return word_tokenizer(r"\d|-|\.", [*GROUPS[:10], "-", "."])


@pytest.fixture(scope="module")
def triple():
    return word_tokenizer(r"\d{1,3}|-|\.", [".", *GROUPS, "-"])


@pytest.fixture(scope="module")
def spaces():
    laws = [Law("norm", {"loc": -3.0, "scale": 400.0}), Law("poisson", {"mu": 4.0}), Law("beta", {"a": 2.0, "b": 2.0})]
    return {str(k): discretize(law, num_decimals=4, max_bins=200) for k, law in enumerate(laws)}


def test_rules_of_the_two_kinds(single, triple):
    assert find_digit_tokens(single, 0).max_group == 1
    assert find_digit_tokens(triple, 0).max_group == 3


def test_the_embedded_models_tokenizer(tokenizer):
    assert find_digit_tokens(tokenizer, tokenizer.eos_token_id).max_group == 1


def test_tries_equal_the_tokenizers(single, triple, spaces):
    for tokenizer in (single, triple):
        rule = find_digit_tokens(tokenizer, 0, 4)
        for name, trie in tries_of(tokenizer, rule, 0, spaces):
            expected = build_trie(encode_answers(tokenizer, list(spaces[name].values)), spaces[name].probabilities, 0)
            np.testing.assert_array_equal(trie.edge_tokens, expected.edge_tokens)
            np.testing.assert_allclose(trie.edge_probabilities, expected.edge_probabilities, rtol=1e-9)


def test_groups_from_the_right_are_refused(spaces):
    # 12345 is 12|345 here: every group is a token, and yet the rule from the left is wrong.
    tokenizer = word_tokenizer(r"\d{1,3}(?=(?:\d{3})*(?!\d))|-|\.", ["-", ".", *GROUPS])
    assert [tokenizer.convert_ids_to_tokens(i) for i in encode_answers(tokenizer, ["12345"])[0]] == ["12", "345"]
    assert find_digit_tokens(tokenizer, 0) is None
    for name, trie in tries_of(tokenizer, None, 0, spaces):
        expected = build_trie(encode_answers(tokenizer, list(spaces[name].values)), spaces[name].probabilities, 0)
        np.testing.assert_array_equal(trie.edge_tokens, expected.edge_tokens)


def test_a_merged_pair_is_noticed():
    # "-0" as one token: every digit is a token, but not after a minus sign.
    tokenizer = word_tokenizer(r"-0|\d|-|\.", [*GROUPS[:10], "-", ".", "-0"])
    assert find_digit_tokens(tokenizer, 0) is None
