"""From a request to token ids, and which token ends the answer."""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from itertools import takewhile
from typing import Any

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from pipeline.config.models import ModelConfig
from pipeline.errors import ModelError, first_line


def answer_terminator(tokenizer: PreTrainedTokenizerBase, terminator: str) -> int:
    """Id of the token that ends turns, tries and generations; "eos" stands for the EOS token. Raises ModelError."""
    token = tokenizer.eos_token if terminator == "eos" else terminator
    if token is None:
        raise ModelError(
            f"tokenizer {tokenizer.name_or_path!r} has no EOS token; set `terminator` of the model to the token that "
            "ends its turn"
        )
    token_id = tokenizer.get_vocab().get(token)
    if token_id is None:
        raise ModelError(f"terminator {token!r} is not a token of the tokenizer {tokenizer.name_or_path!r}")
    return token_id


def text_bos(tokenizer: PreTrainedTokenizerBase) -> int | None:
    """The BOS token that the tokenizer puts before plain text; None where it puts none (Qwen3, GPT-OSS)."""
    bos = tokenizer.bos_token_id
    return bos if bos is not None and tokenizer("a")["input_ids"][:1] == [bos] else None


def apply_template(
    tokenizer: PreTrainedTokenizerBase,
    messages: Sequence[Mapping[str, str]],
    template_arguments: Mapping[str, Any],
    *,
    add_generation_prompt: bool,
) -> str:
    """The chat template's text of a conversation; the tokenizer must have a template.

    Templates that print today's date get ``current_date`` of the template's arguments instead. Raises ModelError where
    that is missing, or the template refuses the messages.
    """
    arguments = dict(template_arguments)
    current_date = arguments.pop("current_date", None)

    def strftime_now(pattern: str) -> str:
        try:
            return date.fromisoformat(current_date or "").strftime(pattern)
        except ValueError:
            raise ModelError(
                f"the chat template of {tokenizer.name_or_path!r} prints today's date, so requests would change from "
                "day to day; pin it with current_date: YYYY-MM-DD in the model's chat.template_arguments"
            ) from None

    arguments |= {"strftime_now": strftime_now, "add_generation_prompt": add_generation_prompt}
    try:
        return tokenizer.apply_chat_template(list(messages), tokenize=False, **arguments)
    except TemplateError as error:
        raise ModelError(
            f"the chat template of {tokenizer.name_or_path!r} refuses a request: {first_line(error)}"
        ) from None


def render_request(
    tokenizer: PreTrainedTokenizerBase,
    messages: Sequence[Mapping[str, str]],
    template_arguments: Mapping[str, Any],
    answer_prefix: str = "",
) -> str | None:
    """The chat template's text up to where the answer starts; None for a tokenizer without a template."""
    if tokenizer.chat_template is None:
        return None
    return apply_template(tokenizer, messages, template_arguments, add_generation_prompt=True) + answer_prefix


def encode_messages(
    tokenizer: PreTrainedTokenizerBase,
    messages: Sequence[Mapping[str, str]],
    template_arguments: Mapping[str, Any],
    answer_prefix: str = "",
    add_special_tokens: bool = False,
) -> list[int]:
    """Token ids of a conversation up to where the answer starts, in the chat template where there is one.

    Text of a template holds its own special tokens; with ``add_special_tokens`` the tokenizer adds more, as in the
    released code of arXiv:2605.11845. Raises ModelError for a wrong number of BOS tokens.
    """
    text = render_request(tokenizer, messages, template_arguments, answer_prefix)
    if text is None:
        plain = "\n\n".join(message["content"] for message in messages)
        ids = tokenizer(plain + answer_prefix, add_special_tokens=True)["input_ids"]
    else:
        ids = tokenizer(text, add_special_tokens=add_special_tokens)["input_ids"]
    if tokenizer.bos_token_id is not None:
        expected = 0 if text_bos(tokenizer) is None else 1
        # Some templates print the BOS token although the tokenizer adds none; one is right then, too. Leading ones
        # alone count: ChatML as SmolLM2 has it opens every turn with its BOS token.
        count = sum(1 for _ in takewhile(lambda token: token == tokenizer.bos_token_id, ids))
        if not expected <= count <= (2 if add_special_tokens and expected else 1):
            raise ModelError(
                f"the encoded request of {tokenizer.name_or_path!r} has {count} BOS tokens, "
                f"expected {expected} at the start"
            )
    return ids


def message_encoder(
    tokenizer: PreTrainedTokenizerBase, config: ModelConfig
) -> Callable[[Sequence[Mapping[str, str]], bool], list[int]]:
    """How a checkpoint is asked: from messages, and whether the model is to reason before it answers, to token ids."""
    options = config.chat

    def encode(messages: Sequence[Mapping[str, str]], reasons: bool) -> list[int]:
        arguments = options.reasoning.template_arguments if reasons else options.template_arguments
        prefix = "" if reasons else options.answer_prefix
        return encode_messages(tokenizer, messages, arguments, prefix, options.add_special_tokens)

    return encode


def request_encoder(tokenizer: PreTrainedTokenizerBase, config: ModelConfig) -> Callable[[str], list[int]]:
    """From one user message, answered without reasoning, to token ids."""
    encode = message_encoder(tokenizer, config)
    return lambda text: encode([{"role": "user", "content": text}], False)


def encode_answers(tokenizer: PreTrainedTokenizerBase, answers: Sequence[str]) -> list[list[int]]:
    """Token ids of canonical strings, no special tokens."""
    return tokenizer(list(answers), add_special_tokens=False)["input_ids"]


def single_tokens(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[int]:
    """Ids of those of the texts that are one token each, in ascending order, each once."""
    return sorted({ids[0] for ids in encode_answers(tokenizer, texts) if len(ids) == 1} - {tokenizer.unk_token_id})


def reply_ids(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], ended: Sequence[bool], terminator: int
) -> list[list[int]]:
    """Token ids of replies, with the terminator where a reply ended by itself, and at least one token each."""
    pairs = zip(encode_answers(tokenizer, texts), ended, strict=True)
    return [[*ids, terminator] if has_ended or not ids else list(ids) for ids, has_ended in pairs]
