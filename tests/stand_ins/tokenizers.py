"""Tokenizers of some hundred tokens with the digit, BOS and special-token rules of four families.

| family | digits | BOS before plain text | turn ends with |
|---|---|---|---|
| Qwen3 | one per token | none | ``<|im_end|>``, its EOS |
| Llama 3.2 | groups of up to three, from the left | ``<|begin_of_text|>``, which the template prints, too | ``<|eot_id|>``, its EOS |
| GPT-OSS | groups of up to three, from the left | none | ``<|return|>``, its EOS |
| Gemma 3 | one per token | ``<bos>``, which the template prints, too | ``<end_of_turn>``, not its EOS ``<eos>`` |
"""  # noqa: E501

import json
from collections.abc import Sequence

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from pipeline.core.laws.families import FAMILIES
from tests.stand_ins import templates

# No digits: every merge would be one that the digit rule forbids.
TEXTS = (
    "Generate exactly ONE random number from a distribution with parameters. Output ONLY the number.",
    "Think of a random city. Choose a random colour. Name a random animal. Pick a random word. Output ONLY the answer.",
    "You are a helpful assistant. First write a complex random string, reason from it, then give the final value.",
    "system user assistant developer model analysis commentary final Instructions Reasoning: low",
    "Question, options A to D, and the correct answer of a multiple-choice question in medicine.",
    "mu= sigma= alpha= beta= lambda= df= scale= lower= upper= ",
    *(f"a {family.display_name} distribution" for family in FAMILIES.values()),
)
BYTE_LEVEL_MERGED = 520
GEMMA_LEARNED = 420

# What splits text before merging; the digits differ. Letters keep one character before them, as in tiktoken's patterns.
_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SINGLE_DIGITS, DIGIT_GROUPS = rf"\p{{N}}|{_WORDS}", rf"\p{{N}}{{1,3}}|{_WORDS}"


def _byte_level(pattern: str) -> Tokenizer:
    """A byte-level BPE behind a splitting pattern; groups of two and three digits are whole tokens if it keeps them."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=BYTE_LEVEL_MERGED, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(TEXTS, trainer)
    if pattern == DIGIT_GROUPS:
        learned = json.loads(tokenizer.to_str())["model"]
        groups = [f"{value:0{size}d}" for size in (2, 3) for value in range(10**size)]
        vocabulary = {**learned["vocab"], **{group: len(learned["vocab"]) + i for i, group in enumerate(groups)}}
        merges = [tuple(merge) for merge in learned["merges"]]
        # A piece that is a token is taken whole, so no merges are needed for the groups.
        tokenizer.model = models.BPE(vocabulary, merges, ignore_merges=True)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _bos_before_text(tokenizer: Tokenizer, bos: str) -> None:
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, tokenizer.token_to_id(bos))]
    )


def _wrapped(tokenizer: Tokenizer, template: str, **special: str) -> PreTrainedTokenizerFast:
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, clean_up_tokenization_spaces=False, **special)
    wrapped.chat_template = template
    return wrapped


def _special(tokens: Sequence[str]) -> list[AddedToken]:
    return [AddedToken(token, special=True, normalized=False) for token in tokens]


def qwen3() -> PreTrainedTokenizerFast:
    """Single digits, no BOS token; the marks of a reasoning trace are tokens but not special ones."""
    tokenizer = _byte_level(SINGLE_DIGITS)
    tokenizer.add_special_tokens(_special(["<|endoftext|>", "<|im_start|>", "<|im_end|>"]))
    tokenizer.add_tokens([AddedToken(mark, special=False, normalized=False) for mark in ("<think>", "</think>")])
    return _wrapped(tokenizer, templates.QWEN3, eos_token="<|im_end|>", pad_token="<|endoftext|>")


def llama3_2() -> PreTrainedTokenizerFast:
    """Digits in groups of up to three, BOS by the tokenizer and by the template, no padding token."""
    tokenizer = _byte_level(DIGIT_GROUPS)
    headers = ["<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>"]
    tokenizer.add_special_tokens(_special(["<|begin_of_text|>", "<|end_of_text|>", *headers]))
    _bos_before_text(tokenizer, "<|begin_of_text|>")
    return _wrapped(tokenizer, templates.LLAMA3_2, bos_token="<|begin_of_text|>", eos_token="<|eot_id|>")


def gpt_oss() -> PreTrainedTokenizerFast:
    """Digits in groups of up to three, Harmony's tokens; a BOS token that nothing ever adds."""
    tokenizer = _byte_level(DIGIT_GROUPS)
    harmony = ["<|constrain|>", "<|channel|>", "<|start|>", "<|end|>", "<|message|>", "<|call|>"]
    tokenizer.add_special_tokens(_special(["<|startoftext|>", "<|endoftext|>", "<|return|>", *harmony]))
    return _wrapped(
        tokenizer, templates.GPT_OSS, bos_token="<|startoftext|>", eos_token="<|return|>", pad_token="<|endoftext|>"
    )


def _gemma_pieces() -> tuple[list[str], list[tuple[str, str]]]:
    """Pieces and merges of a BPE over text whose blanks are U+2581; no piece spans two words or two digits."""
    learner = Tokenizer(models.BPE())
    learner.normalizer = normalizers.Replace(" ", "▁")
    learner.pre_tokenizer = pre_tokenizers.Split(Regex(r"▁?[^▁\n]+|▁|\n"), "isolated")
    printable = [chr(code) for code in range(33, 127)]
    trainer = trainers.BpeTrainer(
        vocab_size=GEMMA_LEARNED, initial_alphabet=[*printable, "\n", "▁"], show_progress=False
    )
    learner.train_from_iterator(TEXTS, trainer)
    learned = json.loads(learner.to_str())["model"]
    return sorted(learned["vocab"], key=learned["vocab"].get), [tuple(merge) for merge in learned["merges"]]


def gemma3() -> PreTrainedTokenizerFast:
    """As from a SentencePiece model: blanks as U+2581, bytes for what has no piece, single digits, BOS."""
    pieces, merges = _gemma_pieces()
    control = ["<pad>", "<eos>", "<bos>", "<unk>"]
    turns = ["<start_of_turn>", "<end_of_turn>", "<start_of_image>", "<end_of_image>", "<image_soft_token>"]
    byte_pieces = [f"<0x{byte:02X}>" for byte in range(256)]
    vocabulary = {piece: index for index, piece in enumerate([*control, *turns, *byte_pieces, *pieces])}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens(_special([*control, *turns]))
    _bos_before_text(tokenizer, "<bos>")
    return _wrapped(
        tokenizer, templates.GEMMA3, bos_token="<bos>", eos_token="<eos>", pad_token="<pad>", unk_token="<unk>"
    )
