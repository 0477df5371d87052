"""Tries of any strings: the general token-sequence path, round trips, and strings that no answer can be."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers
from transformers import PreTrainedTokenizerFast

from pipeline.artifacts.tries import open_tries, write_tries
from pipeline.core.exact.trie_law import leaf_index, string_log_probabilities
from pipeline.core.laws.discretize import discretize, finite_space
from pipeline.core.laws.family import Law
from pipeline.core.laws.finite_law import categorical_law
from pipeline.engines.loading.chat import answer_terminator, encode_answers
from pipeline.engines.loading.digit_rule import find_digit_tokens, tries_of
from pipeline.errors import ModelError
from scripts.embedded_model.tokenizer import train_tokenizer

TOKENIZER = train_tokenizer(["New York Newport Newport Beach tea iced tea 0123456789"] * 8, 300)
TERMINATOR = answer_terminator(TOKENIZER, "eos")
RULE = find_digit_tokens(TOKENIZER, TERMINATOR, 1)
LINES = st.text(min_size=1, max_size=8).filter(
    lambda text: text == text.strip() and len(text.splitlines()) == 1 and "\ufffd" not in text and text.isprintable()
)


def law_of(counts):
    return categorical_law({text: count / sum(counts.values()) for text, count in counts.items()})


@given(st.dictionaries(LINES, st.integers(1, 9), min_size=1, max_size=8))
def test_every_string_has_its_probability_under_the_tokenizer(counts):
    law = law_of(counts)
    ((name, trie),) = tries_of(TOKENIZER, RULE, TERMINATOR, {"p": finite_space(law)})
    places = leaf_index(trie, encode_answers(TOKENIZER, list(law.strings)))
    assert name == "p" and sorted(places) == list(range(len(counts)))
    masses = np.exp(string_log_probabilities(trie, np.log(trie.edge_probabilities)))[places]
    np.testing.assert_allclose(masses, law.probabilities)


def test_texts_and_numbers_stand_beside_each_other_in_their_order(tmp_path):
    cities = law_of({"New York": 3, "New": 1, "Newport": 1, "Newport Beach": 2})
    numbers = discretize(Law("norm", {"loc": 0.0, "scale": 1.0}), num_decimals=1, max_bins=30)
    spaces = {"a": finite_space(cities), "b": numbers, "c": finite_space(law_of({"12": 1, "1": 1}))}
    assert RULE is not None
    tries = dict(tries_of(TOKENIZER, RULE, TERMINATOR, spaces))
    assert list(tries) == ["a", "b", "c"]
    ((_, alone),) = tries_of(TOKENIZER, RULE, TERMINATOR, {"b": numbers})
    np.testing.assert_array_equal(alone.edge_tokens, tries["b"].edge_tokens)
    # The terminator or another letter: "New" ends where "Newport" goes on.
    tokens, _ = tries["a"].next_tokens(encode_answers(TOKENIZER, ["New"])[0])
    assert TERMINATOR in tokens
    write_tries(tmp_path / "tries", tries, TERMINATOR)
    stored = open_tries(tmp_path / "tries")
    np.testing.assert_array_equal(stored["a"].edge_probabilities, tries["a"].edge_probabilities)


def test_a_string_that_the_tokenizer_changes_is_refused():
    inner = Tokenizer(models.WordLevel({"monday": 0, "[UNK]": 1, "</s>": 2}, unk_token="[UNK]"))
    inner.normalizer = normalizers.Lowercase()
    lower = PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]", eos_token="</s>")
    with pytest.raises(ModelError, match="writes 'Monday' as 'monday'"):
        dict(tries_of(lower, None, 2, {"law": finite_space(law_of({"Monday": 1}))}))
    assert dict(tries_of(lower, None, 2, {"law": finite_space(law_of({"monday": 1}))}))["law"].num_prefixes == 2
