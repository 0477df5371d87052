"""Encoding of requests: template, BOS, terminator."""

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from pipeline.embedded.tokenizer import render_prompt
from pipeline.engines.chat import answer_terminator, encode_answers, encode_request
from pipeline.errors import ModelError


@pytest.fixture
def tokenizer(tiny_model):
    return AutoTokenizer.from_pretrained(tiny_model)


def bos_tokenizer(template: str | None, add_bos: bool = True) -> PreTrainedTokenizerFast:
    """Word-level tokenizer that, like Llama's and Gemma's, adds a BOS token to plain text."""
    words = ["<bos>", "<eos>", "<turn>", "a", "hello", "3", "[UNK]"]
    inner = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if add_bos:
        inner.post_processor = processors.TemplateProcessing(
            single="<bos> $A", pair="<bos> $A $B", special_tokens=[("<bos>", 0)]
        )
    wrapped = PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="<bos>", eos_token="<eos>", unk_token="[UNK]")
    wrapped.chat_template = template
    return wrapped


def test_template_equals_the_training_texts_rendering(tokenizer):
    for system in (None, "Be brief."):
        messages = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": "Hi"})
        for thinking in (True, False):
            rendered = tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, enable_thinking=thinking
            )
            assert rendered == render_prompt("Hi", system, thinking)


def test_thinking_switch_and_prefix(tokenizer):
    on = tokenizer.decode(encode_request(tokenizer, "Hi", {"enable_thinking": True}))
    off = tokenizer.decode(encode_request(tokenizer, "Hi", {"enable_thinking": False}, "<|final|>"))
    assert on.endswith("assistant\n")
    assert off.endswith("<think>\n\n</think>\n\n<|final|>")


def test_digits_are_single_tokens(tokenizer):
    assert tokenizer.convert_ids_to_tokens(encode_answers(tokenizer, ["-12.34567"])[0]) == list("-12.34567")


@pytest.mark.parametrize(
    "template", [None, "<bos> {{ messages[0]['content'] }} <turn>"], ids=["plain", "template prints BOS"]
)
def test_exactly_one_bos(template):
    ids = encode_request(bos_tokenizer(template), "hello", {})
    assert ids[0] == 0 and ids.count(0) == 1


def test_missing_bos_is_an_error():
    with pytest.raises(ModelError, match="0 BOS tokens, expected 1"):
        encode_request(bos_tokenizer("{{ messages[0]['content'] }} <turn>"), "hello", {})


def test_doubled_bos_is_an_error():
    with pytest.raises(ModelError, match="2 BOS tokens"):
        encode_request(bos_tokenizer("<bos> <bos> {{ messages[0]['content'] }}"), "hello", {})


def test_terminator():
    tokenizer = bos_tokenizer(None)
    assert answer_terminator(tokenizer, "eos") == 1
    assert answer_terminator(tokenizer, "<turn>") == 2
    with pytest.raises(ModelError, match="<end_of_turn>.*not a token"):
        answer_terminator(tokenizer, "<end_of_turn>")
    tokenizer.eos_token = None
    with pytest.raises(ModelError, match="has no EOS token"):
        answer_terminator(tokenizer, "eos")
