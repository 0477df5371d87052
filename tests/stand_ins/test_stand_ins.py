"""The stand-ins follow their families' rules; what the paper's stages make of them is tested with the stages."""

from dataclasses import replace

import pytest

from pipeline.compose import compose_params
from pipeline.config.params import validate
from pipeline.engines.loading import chat
from pipeline.engines.loading.digit_rule import find_digit_tokens
from pipeline.engines.loading.model import load_model, load_tokenizer, position_logits
from pipeline.engines.scoring.tree_attention import supports_tree_attention
from tests.conftest import ROOT

PROMPT = "Generate exactly ONE random number from a Beta distribution with parameters alpha=2. Output ONLY the number."
ASSISTANT = {
    "qwen3": "<|im_start|>assistant\n<think>\n\n</think>\n\n",
    "llama3_2": "<|start_header_id|>assistant<|end_header_id|>\n\n",
    "gpt_oss": "assistant<|channel|>final<|message|>",
    "gemma3": "<start_of_turn>model\n",
}
# The same request tomorrow: dates are pinned.
DATES = {"llama3_2": "Today Date: 26 Jul 2024", "gpt_oss": "Current date: 2025-08-05"}


@pytest.fixture(scope="module")
def paper():
    return validate(compose_params(ROOT / "conf", ["experiment=paper"]))


@pytest.mark.parametrize(
    ("name", "model", "max_group", "bos", "turn_end"),
    [
        ("qwen3", "qwen3_14b", 1, None, "<|im_end|>"),
        ("llama3_2", "llama3_2_1b", 3, "<|begin_of_text|>", "<|eot_id|>"),
        ("gpt_oss", "gpt_oss_20b", 3, None, "<|return|>"),
        ("gemma3_text", "gemma3_1b", 1, "<bos>", "<end_of_turn>"),
        ("gemma3", "gemma3_27b", 1, "<bos>", "<end_of_turn>"),
    ],
)
def test_rules_of_the_family(stand_ins, paper, name, model, max_group, bos, turn_end):
    config = replace(paper.models[model], checkpoint=str(stand_ins[name]), dtype="float32")
    tokenizer = load_tokenizer(config)
    terminator = chat.answer_terminator(tokenizer, config.terminator)
    assert tokenizer.convert_ids_to_tokens(terminator) == turn_end
    assert find_digit_tokens(tokenizer, terminator).max_group == max_group
    assert chat.text_bos(tokenizer) == (None if bos is None else tokenizer.convert_tokens_to_ids(bos))
    text = "A blank, été, \N{SNOWMAN} and a line\nof -3.14159."
    assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]) == text
    asked = tokenizer.decode(chat.request_encoder(tokenizer, config)(PROMPT))
    assert asked.count(bos or "<none>") == (bos is not None) and asked.endswith(ASSISTANT[config.tokenizer])
    assert DATES.get(config.tokenizer, "") in asked
    loaded = load_model(config, device="cpu")
    assert position_logits(loaded).gathers_hidden and supports_tree_attention(loaded)
