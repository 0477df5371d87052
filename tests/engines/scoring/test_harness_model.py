"""Our model behind the harness's interface: encoding, batching, and the harness's own evaluation loop."""

import copy

import numpy as np
import pytest
import torch
from lm_eval.api.instance import Instance
from lm_eval.api.model import TemplateLM
from tokenizers.processors import TemplateProcessing

from pipeline.engines.loading.chat import encode_answers, encode_request, render_request, text_bos
from pipeline.engines.scoring.harness_model import HarnessModel


def instance(kind, *arguments):
    return Instance(request_type=kind, doc={}, arguments=arguments, idx=0)


def harness_model(model, tokenizer, **limits):
    return HarnessModel(model, tokenizer, {2}, **{"max_new_tokens": 8, "tokens_per_pass": 512, **limits})


@pytest.fixture(scope="module")
def with_bos(tokenizer):
    """The tiny tokenizer, made to put a BOS token before every text, as Llama's and Gemma's do."""
    found = copy.deepcopy(tokenizer)
    found.add_special_tokens({"bos_token": "<bos>"})
    found._tokenizer.post_processor = TemplateProcessing(
        single="<bos> $A", special_tokens=[("<bos>", found.bos_token_id)]
    )
    return found


def test_one_bos_where_the_tokenizer_adds_one(model, tokenizer, with_bos):
    plain, bos = harness_model(model, tokenizer), harness_model(model, with_bos)
    assert text_bos(tokenizer) is None and text_bos(with_bos) == with_bos.bos_token_id
    ids = tokenizer("Generate a number", add_special_tokens=False)["input_ids"]
    assert plain.encode("Generate a number") == ids
    assert (
        bos.encode("Generate a number") == [with_bos.bos_token_id, *ids] == with_bos("Generate a number")["input_ids"]
    )
    context, continuation = bos.encode_pair("Generate", " a number")
    assert context.count(with_bos.bos_token_id) == 1 and with_bos.bos_token_id not in continuation
    # A BOS token that the tokenizer knows and does not add is not added.
    named = copy.deepcopy(tokenizer)
    named.add_special_tokens({"bos_token": "<bos>"})
    assert text_bos(named) is None


@pytest.mark.parametrize("bos", [False, True])
def test_a_request_in_the_chat_template_is_encoded_as_in_training(model, tokenizer, with_bos, bos):
    chosen, options = copy.deepcopy(with_bos if bos else tokenizer), {"enable_thinking": False}
    if bos:
        chosen.chat_template = "{{ bos_token }}" + chosen.chat_template

    def render(messages):
        return render_request(chosen, messages, options, "<final>")

    asked = harness_model(model, chosen, render=render)
    text = asked.apply_chat_template([{"role": "user", "content": "Generate a number"}])
    assert asked.tokenizer_name == chosen.name_or_path
    expected = encode_request(chosen, "Generate a number", options, "<final>")
    assert asked.encode(text) == expected and expected.count(with_bos.bos_token_id) == (1 if bos else 0)
    doubled = harness_model(model, chosen, render=render, add_special_tokens=True).encode(text)
    assert doubled == encode_request(chosen, "Generate a number", options, "<final>", add_special_tokens=True)
    assert doubled.count(with_bos.bos_token_id) == (2 if bos else 0)
    # The answer begins where the template ends, whatever its last character is.
    line = render_request(chosen, [{"role": "user", "content": "Generate a number"}], options)
    assert line.endswith("\n")
    context, answer = asked.encode_pair(line, "3.5")
    assert context == encode_request(chosen, "Generate a number", options)
    assert answer == encode_answers(chosen, ["3.5"])[0]
    with pytest.raises(ValueError, match="requests are in plain text"):
        harness_model(model, chosen).apply_chat_template([])


class HarnessEncoder(TemplateLM):
    """The harness's own cut between context and continuation."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def tok_encode(self, string, add_special_tokens=None, **kwargs):
        return self.tokenizer(string)["input_ids"]

    eot_token_id = loglikelihood_rolling = generate_until = _loglikelihood_tokens = None


@pytest.mark.parametrize(
    "pair",
    [
        ("Question: Generate?\nAnswer:", " number"),
        ("Question: Generate?\nAnswer: ", "number"),
        ("one", "number"),
        ("Generate exactly ONE random numb", "er. Output ONLY"),
        ("tail  \n", " x"),
    ],
)
@pytest.mark.parametrize("bos", [False, True])
def test_pairs_are_cut_as_the_harness_cuts_them(model, tokenizer, with_bos, pair, bos):
    chosen = with_bos if bos else tokenizer
    assert harness_model(model, chosen).encode_pair(*pair) == HarnessEncoder(chosen)._encode_pair(*pair)


@torch.inference_mode()
def plain(model, context, continuation):
    laws = torch.log_softmax(model(input_ids=torch.tensor([[*context, *continuation]])).logits[0].double(), dim=-1)
    return sum(float(laws[len(context) - 1 + step, token]) for step, token in enumerate(continuation))


def test_log_likelihoods_in_the_order_of_the_requests(model, tokenizer):
    asked = harness_model(model, tokenizer)
    pairs = [
        ("Generate exactly ONE random number." * size, f" {word}")
        for size in (3, 1, 2)
        for word in ("a", "Output ONLY")
    ]
    answers = asked.loglikelihood([instance("loglikelihood", *pair) for pair in pairs])
    expected = [plain(model, *asked.encode_pair(*pair)) for pair in pairs]
    np.testing.assert_allclose([value for value, _ in answers], expected, atol=1e-4)
    assert len({round(value, 3) for value in expected}) == len(pairs)
    rolling = asked.loglikelihood_rolling([instance("loglikelihood_rolling", "Generate exactly ONE")])
    ids = tokenizer("Generate exactly ONE")["input_ids"]
    assert rolling == pytest.approx([plain(model, [tokenizer.eos_token_id], ids)], abs=1e-4)


def test_generation_in_the_order_of_the_requests(model, tokenizer):
    asked = harness_model(model, tokenizer)
    texts = ["Generate exactly ONE", "number", "Output ONLY the number. Output"]
    greedy = {"until": ["\x00"], "do_sample": False, "temperature": 0.0}
    together = asked.generate_until([instance("generate_until", text, greedy) for text in texts])
    alone = [asked.generate_until([instance("generate_until", text, greedy)])[0] for text in texts]
    assert together == alone and len(set(together)) == 3
    # Requests with other stop strings are decoded apart.
    stop = {**greedy, "until": [together[1][:1]]}
    mixed = asked.generate_until(
        [
            instance("generate_until", text, settings)
            for text, settings in zip(texts, (greedy, stop, greedy), strict=True)
        ]
    )
    assert mixed == [together[0], "", together[2]]


def test_what_is_not_supported(model, tokenizer):
    asked = harness_model(model, tokenizer)
    with pytest.raises(ValueError, match="only greedy"):
        list(asked.answer("generate_until", [("a", {"until": ["x"], "do_sample": True})]))
    with pytest.raises(ValueError, match="'multiple_choice'"):
        list(asked.answer("multiple_choice", []))
