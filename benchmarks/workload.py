"""Models and examples that the training benchmarks share."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from peft import PeftModel
from transformers import Qwen3Config, Qwen3ForCausalLM

from pipeline.config.models import ChatConfig, ModelConfig, ReasoningConfig
from pipeline.core.laws.discretize import discretize
from pipeline.core.prompts.structured import build_split
from pipeline.core.training.examples import Example, hard_example, soft_example
from pipeline.core.tries.trie import Trie, build_trie
from pipeline.engines.loading import chat
from pipeline.engines.loading.model import add_lora, load_model, load_tokenizer

CHECKPOINT = Path(__file__).parents[1] / "models" / "embedded"
MODEL = ModelConfig(
    display_name="Embedded",
    checkpoint=str(CHECKPOINT),
    revision=None,
    tokenizer="embedded",
    dtype="float32",
    attention="sdpa",
    terminator="eos",
    num_parameters=3_541_504,
    chat=ChatConfig(
        template_arguments={"enable_thinking": False},
        answer_prefix="",
        add_special_tokens=False,
        reasoning=ReasoningConfig({"enable_thinking": True}, "system", None),
    ),
    lora_target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
)
# The vocabulary of Qwen3 on a model that is otherwise small: the output head dominates.
LARGE_VOCABULARY = 151_936


def make_model(name: str, dropout: float = 0.0) -> PeftModel:
    """ "embedded", or "large_vocabulary": two random layers of width 256; with LoRA weights that are not zero."""
    torch.manual_seed(0)
    if name == "embedded":
        base = load_model(MODEL, device="cpu")
    else:
        base = Qwen3ForCausalLM(
            Qwen3Config(
                vocab_size=LARGE_VOCABULARY,
                hidden_size=256,
                intermediate_size=768,
                num_hidden_layers=2,
                num_attention_heads=8,
                num_key_value_heads=2,
                head_dim=32,
                tie_word_embeddings=True,
            )
        ).eval()
    model = add_lora(base, MODEL, rank=16, alpha=32, dropout=dropout)
    for parameter_name, parameter in model.named_parameters():
        if "lora_B" in parameter_name:
            torch.nn.init.normal_(parameter, std=1e-3)
    return model


@dataclass(frozen=True)
class Workload:
    """Encoded prompts of different families with their tries."""

    prompts: list[list[int]]
    tries: list[Trie]

    def soft(self, draw: int, num_paths: int = 1) -> list[Example]:
        """One example of ``num_paths`` paths behind each prompt."""
        return [
            soft_example(prompt, trie, np.random.default_rng([draw, index]), num_paths)
            for index, (prompt, trie) in enumerate(zip(self.prompts, self.tries, strict=True))
        ]

    def hard(self, draw: int, num_completions: int = 1, packed: bool = True) -> list[Example]:
        """``num_completions`` sampled strings of each prompt, in one example or in one each."""
        examples = []
        for index, (prompt, trie) in enumerate(zip(self.prompts, self.tries, strict=True)):
            rng = np.random.default_rng([draw, index])
            drawn = [trie.sample_path(rng)[0] for _ in range(num_completions)]
            examples += [hard_example(prompt, drawn)] if packed else [hard_example(prompt, [one]) for one in drawn]
        return examples


def make_workload(num_prompts: int, max_bins: int) -> Workload:
    """Training prompts spread over the families, and tries of 5 decimals and ``max_bins`` strings."""
    tokenizer = load_tokenizer(MODEL)
    terminator = chat.answer_terminator(tokenizer, MODEL.terminator)
    split = build_split("train", prompts_per_family=1)
    chosen = [split[index] for index in np.linspace(0, len(split) - 1, num_prompts).astype(int)]
    tries = []
    for prompt in chosen:
        space = discretize(prompt.law, num_decimals=5, max_bins=max_bins)
        tries.append(build_trie(chat.encode_answers(tokenizer, list(space.values)), space.probabilities, terminator))
    encoded = [chat.encode_request(tokenizer, prompt.text, MODEL.chat.template_arguments) for prompt in chosen]
    return Workload(encoded, tries)
