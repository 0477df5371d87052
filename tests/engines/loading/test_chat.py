"""Encoding of requests: template, BOS, terminator."""

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from pipeline.engines.loading.chat import answer_terminator, encode_messages, render_request
from pipeline.errors import ModelError


def word_tokenizer(words: list[str], template: str | None, **special: str) -> PreTrainedTokenizerFast:
    inner = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    wrapped = PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]", **special)
    wrapped.chat_template = template
    return wrapped


def bos_tokenizer(template: str | None, add_bos: bool = True) -> PreTrainedTokenizerFast:
    """Word-level tokenizer that, like Llama's and Gemma's, adds a BOS token to plain text."""
    words = ["<bos>", "<eos>", "<turn>", "a", "hello", "3", "[UNK]"]
    wrapped = word_tokenizer(words, template, bos_token="<bos>", eos_token="<eos>")
    if add_bos:
        wrapped.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single="<bos> $A", pair="<bos> $A $B", special_tokens=[("<bos>", 0)]
        )
    return wrapped


HELLO = [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize(
    "template", [None, "<bos> {{ messages[0]['content'] }} <turn>"], ids=["plain", "template prints BOS"]
)
def test_exactly_one_bos(template):
    ids = encode_messages(bos_tokenizer(template), HELLO, {})
    assert ids[0] == 0 and ids.count(0) == 1


def test_the_released_code_doubles_the_bos_that_a_template_prints():
    template = "<bos> {{ messages[0]['content'] }} <turn>"
    ids = encode_messages(bos_tokenizer(template), HELLO, {}, add_special_tokens=True)
    assert ids[:2] == [0, 0] and ids.count(0) == 2
    # A model without a BOS token, or whose tokenizer adds none, is asked as always.
    without = bos_tokenizer(template, add_bos=False)
    assert encode_messages(without, HELLO, {}, add_special_tokens=True) == encode_messages(without, HELLO, {})
    assert encode_messages(bos_tokenizer(None), HELLO, {}, add_special_tokens=True).count(0) == 1
    with pytest.raises(ModelError, match="3 BOS tokens"):
        encode_messages(bos_tokenizer("<bos> <bos> {{ messages[0]['content'] }}"), HELLO, {}, add_special_tokens=True)


@pytest.mark.parametrize(
    ("template", "expected"),
    [("{{ messages[0]['content'] }} <turn>", "0 BOS tokens, expected 1"), ("<bos> <bos> a", "2 BOS tokens")],
)
def test_another_number_of_bos_tokens_is_an_error(template, expected):
    with pytest.raises(ModelError, match=expected):
        encode_messages(bos_tokenizer(template), HELLO, {})


CHATML = (
    "{% for message in messages %}<|im_start|> {{ message['role'] }} {{ message['content'] }} <|im_end|> {% endfor %}"
    "{% if add_generation_prompt %}<|im_start|> assistant{% endif %}"
)


def test_a_bos_token_that_opens_turns_is_no_second_beginning():
    messages = [{"role": "system", "content": "a"}, {"role": "user", "content": "hello"}]
    # As SmolLM2's: the token that opens every turn is the BOS token, and plain text gets none.
    words = ["<|im_start|>", "<|im_end|>", "system", "user", "assistant", "a", "hello", "[UNK]"]
    special = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}
    ids = encode_messages(word_tokenizer(words, CHATML, **special), messages, {})
    assert ids.count(0) == 3 and ids[:1] == [0]
    with pytest.raises(ModelError, match="2 BOS tokens, expected 0 at the start"):
        encode_messages(word_tokenizer(words, "{{ bos_token }} " + CHATML, **special), messages, {})


def test_terminator():
    tokenizer = bos_tokenizer(None)
    assert answer_terminator(tokenizer, "eos") == 1
    assert answer_terminator(tokenizer, "<turn>") == 2
    with pytest.raises(ModelError, match="<end_of_turn>.*not a token"):
        answer_terminator(tokenizer, "<end_of_turn>")
    tokenizer.eos_token = None
    with pytest.raises(ModelError, match="has no EOS token"):
        answer_terminator(tokenizer, "eos")


DATED = "{{ strftime_now('%d %b %Y') }} {{ messages[0]['content'] }}"


def test_a_date_is_pinned_or_refused():
    tokenizer = bos_tokenizer(DATED, add_bos=False)
    messages = [{"role": "user", "content": "hello"}]
    assert render_request(tokenizer, messages, {"current_date": "2025-08-05"}) == "05 Aug 2025 hello"
    for arguments in ({}, {"current_date": "yesterday"}):
        with pytest.raises(ModelError, match="prints today's date.*current_date: YYYY-MM-DD"):
            render_request(tokenizer, messages, arguments)
    # A template that does not ask for the date needs none.
    assert render_request(bos_tokenizer("{{ messages[0]['content'] }}"), messages, {}) == "hello"


def test_what_a_template_refuses_is_one_sentence(stand_ins):
    gemma = AutoTokenizer.from_pretrained(stand_ins["gemma3"])
    with pytest.raises(ModelError, match="refuses a request: user and assistant turns must alternate"):
        encode_messages(gemma, [{"role": "user", "content": "Hi"}] * 2, {})
