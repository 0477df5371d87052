"""A model that answers tasks: encoding of requests, and answers in the order of the requests."""

import copy

import numpy as np
import pytest
import torch
from tokenizers.processors import TemplateProcessing

from pipeline.engines.loading.chat import encode_answers, encode_messages, render_request, text_bos
from pipeline.engines.scoring.task_model import TaskModel


def task_model(model, tokenizer, **options):
    return TaskModel(model, tokenizer, {2}, **{"max_new_tokens": 8, "tokens_per_pass": 512, **options})


@pytest.fixture(scope="module")
def with_bos(tokenizer):
    """The tiny tokenizer, made to put a BOS token before every text, as Llama's and Gemma's do."""
    changed = copy.deepcopy(tokenizer)
    changed.add_special_tokens({"bos_token": "<bos>"})
    changed._tokenizer.post_processor = TemplateProcessing(
        single="<bos> $A", special_tokens=[("<bos>", changed.bos_token_id)]
    )
    return changed


@pytest.mark.parametrize("bos", [False, True])
def test_a_request_in_the_chat_template_is_encoded_as_in_training(model, tokenizer, with_bos, bos):
    chosen, options = copy.deepcopy(with_bos if bos else tokenizer), {"enable_thinking": False}
    assert text_bos(chosen) == (with_bos.bos_token_id if bos else None)
    if bos:
        chosen.chat_template = "{{ bos_token }}" + chosen.chat_template
    messages = [{"role": "user", "content": "Generate a number"}]
    asked = task_model(model, chosen, in_template=True)
    text = render_request(chosen, messages, options, "<final>")
    expected = encode_messages(chosen, messages, options, "<final>")
    assert asked.encode(text) == expected and expected.count(with_bos.bos_token_id) == (1 if bos else 0)
    doubled = task_model(model, chosen, in_template=True, add_special_tokens=True).encode(text)
    assert doubled == encode_messages(chosen, messages, options, "<final>", add_special_tokens=True)
    assert doubled.count(with_bos.bos_token_id) == (2 if bos else 0)
    # The answer begins where the template ends, whatever its last character is.
    line = render_request(chosen, messages, options)
    assert line.endswith("\n")
    context, answer = asked.encode_pair(line, "3.5")
    assert context == encode_messages(chosen, messages, options)
    assert answer == encode_answers(chosen, ["3.5"])[0]


@pytest.mark.parametrize(
    ("context", "continuation", "stripped"),
    [
        ("Question: Generate?\nAnswer:", " number", "Question: Generate?\nAnswer:"),
        ("Question: Generate?\nAnswer: ", "number", "Question: Generate?\nAnswer:"),
        ("Generate exactly ONE random numb", "er. Output ONLY", "Generate exactly ONE random numb"),
        ("tail  \n", " x", "tail"),
    ],
)
@pytest.mark.parametrize("bos", [False, True])
def test_plain_text_is_cut_behind_the_tokens_of_its_context(
    model, tokenizer, with_bos, context, continuation, stripped, bos
):
    chosen = with_bos if bos else tokenizer
    found, rest = task_model(model, chosen).encode_pair(context, continuation)
    # One BOS where the tokenizer adds one, and blanks that end the context with the continuation.
    assert found == chosen(stripped)["input_ids"]
    assert rest == chosen(context + continuation)["input_ids"][len(found) :]


@torch.inference_mode()
def plain(model, context, continuation):
    laws = torch.log_softmax(model(input_ids=torch.tensor([[*context, *continuation]])).logits[0].double(), dim=-1)
    return sum(float(laws[len(context) - 1 + step, token]) for step, token in enumerate(continuation))


def answers(asked, kind, arguments):
    found = dict(answered for batch in asked.answer(kind, arguments) for answered in batch)
    return [found[place] for place in range(len(arguments))]


FEW_SHOT = "Generate exactly ONE number. Output ONLY the number. " * 3


@pytest.mark.parametrize("trees", [True, False])
@pytest.mark.parametrize("shown", ["", FEW_SHOT], ids=["nothing in common", "few-shot"])
def test_log_likelihoods_in_the_order_of_the_requests(model, tokenizer, monkeypatch, shown, trees):
    monkeypatch.setattr("pipeline.engines.scoring.task_model.supports_tree_attention", lambda _: trees)
    asked = task_model(model, tokenizer)
    starts = [f"{shown}{first} exactly ONE" for first in ("random", "number", "Generate", "Generate exactly")]
    pairs = [(start, f" {word}") for word in ("a", "Output ONLY", "Output") for start in starts]
    expected = [plain(model, *asked.encode_pair(*pair)) for pair in pairs]
    np.testing.assert_allclose(answers(asked, "loglikelihood", pairs), expected, atol=1e-4)
    assert len({round(value, 3) for value in expected}) >= 10
