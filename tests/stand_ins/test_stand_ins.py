"""The stand-ins follow their families' rules, and are scored and trained."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from pipeline.compose import compose_params
from pipeline.config.params import validate
from pipeline.core.tries.trie import build_trie
from pipeline.engines.loading import chat
from pipeline.engines.loading.digit_rule import find_digit_tokens
from pipeline.engines.loading.model import load_model, load_tokenizer, position_logits
from pipeline.engines.scoring.tree_attention import supports_tree_attention
from pipeline.engines.scoring.tree_scorer import TreeScorer, trie_tree
from tests.conftest import ROOT
from tests.stand_ins.checkpoints import CAUSAL

# The paper's models whose settings each stand-in is asked with.
MODELS = {
    "qwen3": "qwen3_14b",
    "llama3_2": "llama3_2_1b",
    "gpt_oss": "gpt_oss_20b",
    "gemma3_text": "gemma3_1b",
    "gemma3": "gemma3_27b",
}
PROMPT = "Generate exactly ONE random number from a Beta distribution with parameters alpha=2. Output ONLY the number."
NUMBERS = ["0.25", "0.5", "-1.75", "12.125"]


@pytest.fixture(scope="module")
def paper():
    return validate(compose_params(ROOT / "conf", ["experiment=paper"]))


class StandIn:
    """A stand-in with the settings of a model of the paper, and what tests ask of it."""

    def __init__(self, config):
        self.config = config
        self.tokenizer = load_tokenizer(config)
        self.terminator = chat.answer_terminator(self.tokenizer, config.terminator)
        self.prompt = chat.encode_request(
            self.tokenizer, PROMPT, config.chat.template_arguments, config.chat.answer_prefix
        )
        answers = chat.encode_answers(self.tokenizer, NUMBERS)
        self.trie = build_trie(answers, np.array([0.4, 0.3, 0.2, 0.1]), self.terminator)

    def model(self):
        return load_model(self.config, device="cpu")


@pytest.fixture(scope="module", params=MODELS)
def stand_in(request, stand_ins, paper) -> StandIn:
    config = paper.models[MODELS[request.param]]
    return StandIn(replace(config, checkpoint=str(stand_ins[request.param]), dtype="float32"))


@pytest.mark.parametrize(
    "name, max_group, bos, turn_end",
    [
        ("qwen3", 1, None, "<|im_end|>"),
        ("llama3_2", 3, "<|begin_of_text|>", "<|eot_id|>"),
        ("gpt_oss", 3, None, "<|return|>"),
        ("gemma3", 1, "<bos>", "<end_of_turn>"),
    ],
)
def test_tokenizer_rules(name, max_group, bos, turn_end):
    tokenizer, _ = CAUSAL[name]()
    terminator = chat.answer_terminator(tokenizer, turn_end)
    assert find_digit_tokens(tokenizer, terminator).max_group == max_group
    assert chat.text_bos(tokenizer) == (None if bos is None else tokenizer.convert_tokens_to_ids(bos))
    assert (tokenizer.eos_token == turn_end) == (name != "gemma3")
    text = "A blank, été, \N{SNOWMAN} and a line\nof -3.14159."
    assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]) == text


def test_requests_have_one_bos_and_end_where_the_answer_starts(stand_in):
    text = stand_in.tokenizer.decode(stand_in.prompt)
    bos = stand_in.tokenizer.bos_token
    assert text.count(bos or "<none>") == (1 if chat.text_bos(stand_in.tokenizer) is not None else 0)
    endings = {
        "qwen3": "<|im_start|>assistant\n<think>\n\n</think>\n\n",
        "gpt_oss": "assistant<|channel|>final<|message|>",
        "llama3_2": "<|start_header_id|>assistant<|end_header_id|>\n\n",
        "gemma3": "<start_of_turn>model\n",
    }
    assert text.endswith(endings[stand_in.config.tokenizer])
    # The same request tomorrow: dates are pinned.
    dates = {"llama3_2": "Today Date: 26 Jul 2024", "gpt_oss": "Current date: 2025-08-05"}
    assert dates.get(stand_in.config.tokenizer, "") in text


def plain_log_probabilities(model, ids):
    with torch.inference_mode():
        return torch.log_softmax(model(input_ids=torch.tensor([ids])).logits[0].double(), dim=-1)


def test_position_logits_and_trees(stand_in):
    model = stand_in.model()
    assert position_logits(model).gathers_hidden and supports_tree_attention(model)
    expected = []
    tree = trie_tree(stand_in.trie)
    for prefix in range(stand_in.trie.num_prefixes):
        law = plain_log_probabilities(model, [*stand_in.prompt, *tree.path(prefix - 1)])[-1].numpy()
        edges = slice(*stand_in.trie.edge_offsets[prefix : prefix + 2])
        expected.extend(law[stand_in.trie.edge_tokens[edges]])
    scorer = TreeScorer(model)
    scores = scorer.score_trie(scorer.prefill(stand_in.prompt), stand_in.trie)
    np.testing.assert_allclose(scores, expected, atol=1e-4)
