"""Tiny random checkpoints of the paper's causal language models and of NoveltyBench's evaluators."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm
from transformers import (
    Gemma3Config,
    Gemma3ForCausalLM,
    Gemma3ForConditionalGeneration,
    Gemma3TextConfig,
    GptOssConfig,
    GptOssForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
    SiglipVisionConfig,
)
from transformers.utils.logging import disable_progress_bar

from pipeline.artifacts.atomic import atomic_directory
from pipeline.artifacts.storage import write_json
from pipeline.core.random_streams import stream_seed
from tests import stand_ins
from tests.stand_ins import evaluators, mxfp4, tokenizers

SHAPE = stand_ins.SHAPE | {"max_position_embeddings": 4096}
# Shorter than most requests, so that the window counts.
SLIDING = dict(sliding_window=24, layer_types=["sliding_attention", "full_attention"])
# Standard deviation of the logits of a random model: sharp enough that a law has favourites and an adapter can learn.
LOGIT_SCALE = 2.0


def _ids(tokenizer: PreTrainedTokenizerFast, *tokens: str) -> list[int]:
    return [tokenizer.convert_tokens_to_ids(token) for token in tokens]


def _token_ids(tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    return {
        "vocab_size": len(tokenizer),
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }


def _with_defaults(model: PreTrainedModel, **defaults: Any) -> PreTrainedModel:
    """With sampling defaults in ``generation_config.json``; the pipeline samples the plain softmax."""
    model.generation_config.update(do_sample=True, **defaults)
    return model


def qwen3() -> tuple[PreTrainedTokenizerFast, PreTrainedModel]:
    """Qwen3 with tied embeddings, as up to 4B."""
    tokenizer = tokenizers.qwen3()
    model = Qwen3ForCausalLM(Qwen3Config(**SHAPE, **_token_ids(tokenizer), tie_word_embeddings=True))
    stops = _ids(tokenizer, "<|im_end|>", "<|endoftext|>")
    return tokenizer, _with_defaults(model, temperature=0.6, top_k=20, top_p=0.95, eos_token_id=stops)


def llama3_2() -> tuple[PreTrainedTokenizerFast, PreTrainedModel]:
    """Llama 3.2 with tied embeddings and scaled rotary frequencies."""
    tokenizer = tokenizers.llama3_2()
    rope = {
        "rope_type": "llama3",
        "rope_theta": 500_000.0,
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 512,
    }
    model = LlamaForCausalLM(
        LlamaConfig(**SHAPE, **_token_ids(tokenizer), rope_parameters=rope, tie_word_embeddings=True)
    )
    stops = _ids(tokenizer, "<|end_of_text|>", "<|eom_id|>", "<|eot_id|>")
    return tokenizer, _with_defaults(model, temperature=0.6, top_p=0.9, eos_token_id=stops)


def gpt_oss() -> tuple[PreTrainedTokenizerFast, PreTrainedModel]:
    """GPT-OSS: four experts (stored in MXFP4), attention sinks, every other layer's window, its own output head."""
    tokenizer = tokenizers.gpt_oss()
    # Its default stretches the rotary frequencies of 4,096 positions to as many.
    shape = dict(SHAPE, intermediate_size=64, max_position_embeddings=131_072)
    config = GptOssConfig(
        **shape,
        **SLIDING,
        **_token_ids(tokenizer),
        num_local_experts=4,
        num_experts_per_tok=2,
        tie_word_embeddings=False,
    )
    stops = _ids(tokenizer, "<|return|>", "<|endoftext|>", "<|call|>")
    return tokenizer, _with_defaults(GptOssForCausalLM(config), top_k=50, eos_token_id=stops)


def _gemma3_text_config(tokenizer: PreTrainedTokenizerFast) -> Gemma3TextConfig:
    return Gemma3TextConfig(
        **SHAPE, **SLIDING, **_token_ids(tokenizer), query_pre_attn_scalar=SHAPE["head_dim"], tie_word_embeddings=True
    )


def _gemma3_defaults(tokenizer: PreTrainedTokenizerFast, model: PreTrainedModel) -> PreTrainedModel:
    stops = _ids(tokenizer, "<eos>", "<end_of_turn>")
    return _with_defaults(model, top_k=64, top_p=0.95, eos_token_id=stops, cache_implementation="hybrid")


def gemma3_text() -> tuple[PreTrainedTokenizerFast, PreTrainedModel]:
    """Gemma 3 1B: text alone."""
    tokenizer = tokenizers.gemma3()
    return tokenizer, _gemma3_defaults(tokenizer, Gemma3ForCausalLM(_gemma3_text_config(tokenizer)))


def gemma3() -> tuple[PreTrainedTokenizerFast, PreTrainedModel]:
    """Gemma 3 from 4B up: the language model inside a model that also reads images through a SigLIP tower."""
    tokenizer = tokenizers.gemma3()
    vision = SiglipVisionConfig(
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=16,
        patch_size=4,
        vision_use_head=False,
    )
    start, end, soft = _ids(tokenizer, "<start_of_image>", "<end_of_image>", "<image_soft_token>")
    config = Gemma3Config(
        text_config=_gemma3_text_config(tokenizer),
        vision_config=vision,
        mm_tokens_per_image=4,
        boi_token_index=start,
        eoi_token_index=end,
        image_token_index=soft,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return tokenizer, _gemma3_defaults(tokenizer, Gemma3ForConditionalGeneration(config))


CAUSAL: dict[str, Callable[[], tuple[PreTrainedTokenizerFast, PreTrainedModel]]] = {
    "qwen3": qwen3,
    "gemma3": gemma3,
    "gemma3_text": gemma3_text,
    "llama3_2": llama3_2,
    "gpt_oss": gpt_oss,
}
EVALUATORS: dict[str, Callable[[Path], Any]] = {
    "deberta": evaluators.save_classifier,
    "skywork": evaluators.save_reward_model,
}
NAMES = (*CAUSAL, *EVALUATORS)
# Published checkpoints of these families name a class of their own; the others take tokenizer.json as it is.
TOKENIZER_CLASSES = {"qwen3": "Qwen2Tokenizer", "gemma3": "GemmaTokenizer", "gemma3_text": "GemmaTokenizer"}


@torch.no_grad()
def _sharpen(model: PreTrainedModel) -> None:
    """Draw the matrices anew so that layers count and logits have a standard deviation of ``LOGIT_SCALE``."""
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.normal_(0, 0.15)
    head = model.get_output_embeddings().weight
    # The last norm hands states of unit root mean square to the head.
    head.normal_(0, LOGIT_SCALE / head.shape[1] ** 0.5)


def write_stand_in(name: str, directory: Path) -> None:
    """Write the checkpoint of one stand-in: always the same weights. The directory is replaced whole or not at all."""
    with torch.random.fork_rng(devices=[]), atomic_directory(directory) as temporary:
        torch.manual_seed(stream_seed(0, "stand_ins", name))
        if name in EVALUATORS:
            EVALUATORS[name](temporary)
            return
        tokenizer, model = CAUSAL[name]()
        _sharpen(model)
        model.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)
        if name in TOKENIZER_CLASSES:
            path = temporary / "tokenizer_config.json"
            write_json(path, json.loads(path.read_text()) | {"tokenizer_class": TOKENIZER_CLASSES[name]})
        if name == "gpt_oss":
            mxfp4.quantise_experts(temporary)


def write_stand_ins(output: Path) -> dict[str, Path]:
    """Write every stand-in below ``output``; returns their directories by name."""
    directories = {name: output / name for name in NAMES}
    disable_progress_bar()
    for name, directory in tqdm(directories.items(), desc="stand-ins", unit="checkpoint"):
        write_stand_in(name, directory)
    return directories
