"""Byte-level BPE tokenizer of the embedded model: single digits, ChatML turns, a thinking switch."""

from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

END_OF_TEXT, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
THINK_START, THINK_END = "<think>", "</think>"

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}"
    "<|im_start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}"
    "{% endif %}"
)


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> PreTrainedTokenizerFast:
    """Train the BPE on ``texts``. Digits are always single tokens; no BOS token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END_OF_TEXT, TURN_START, TURN_END, THINK_START, THINK_END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokens = {"eos_token": TURN_END, "pad_token": END_OF_TEXT}
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, clean_up_tokenization_spaces=False, **tokens)
    wrapped.chat_template = CHAT_TEMPLATE
    return wrapped


def render_prompt(user: str, system: str | None, thinking: bool) -> str:
    """The chat template's text for one request, without the Jinja interpreter (a test holds them equal)."""
    head = f"{TURN_START}system\n{system}{TURN_END}\n" if system is not None else ""
    tail = "" if thinking else f"{THINK_START}\n\n{THINK_END}\n\n"
    return f"{head}{TURN_START}user\n{user}{TURN_END}\n{TURN_START}assistant\n{tail}"
