"""A GGUF file as a checkpoint, on a small file made with the format's own library."""

import json
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from pydantic import TypeAdapter
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from pipeline.config.models import ModelConfig
from pipeline.errors import ConfigError, ModelError
from pipeline.sources import import_gguf

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LAYER = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}


CHAT = {
    "template_arguments": {},
    "answer_prefix": "",
    "add_special_tokens": False,
    "reasoning": {"template_arguments": {}, "instruction_role": "system", "answer_channel": None},
}


def settings(checkpoint: Path, display_name: str) -> ModelConfig:
    """How params.yaml names an imported model."""
    values = {"display_name": display_name, "checkpoint": str(checkpoint), "revision": None, "num_parameters": 1}
    values |= {"tokenizer": "small", "dtype": "float32", "attention": "sdpa", "terminator": "eos", "chat": CHAT}
    return TypeAdapter(ModelConfig).validate_python(values | {"lora_target_modules": ["q_proj"]})


def byte_tokens() -> list[str]:
    from tokenizers.pre_tokenizers import ByteLevel

    return sorted(ByteLevel.alphabet())


def stored_rows(name: str, weight: np.ndarray, heads: int) -> np.ndarray:
    """The order in which llama.cpp keeps the rows of queries and keys: both halves of a head by turns."""
    if name not in ("attn_q", "attn_k"):
        return weight
    half = len(weight) // heads // 2
    order = [head * 2 * half + side * half + place for head in range(heads) for place in range(half) for side in (0, 1)]
    return weight[order]


@pytest.fixture(scope="module")
def model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        vocab_size=len(SPECIAL) + 258,
        tie_word_embeddings=True,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        max_position_embeddings=64,
    )
    return LlamaForCausalLM(config).eval()


def write(path: Path, model: LlamaForCausalLM, pre: str = "smollm") -> Path:
    """A GGUF file of a model; its projections in Q4_1."""
    config, weights = model.config, model.state_dict()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("Small")
    writer.add_license("apache-2.0")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list([*SPECIAL, *byte_tokens(), "12", "Ġa"])
    writer.add_token_types([3] * len(SPECIAL) + [1] * 258)
    writer.add_token_merges(["1 2", "Ġ a"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_chat_template(TEMPLATE)

    def add(name: str, weight: torch.Tensor, heads: int = 1) -> None:
        values = np.ascontiguousarray(stored_rows(name.split(".")[-2], weight.numpy(), heads))
        if values.ndim == 2 and "embd" not in name:
            kind = gguf.GGMLQuantizationType.Q4_1
            writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, values)

    add("token_embd.weight", weights["model.embed_tokens.weight"])
    add("output_norm.weight", weights["model.norm.weight"])
    for layer in range(config.num_hidden_layers):
        for name, place in LAYER.items():
            heads = config.num_key_value_heads if name == "attn_k" else config.num_attention_heads
            add(f"blk.{layer}.{name}.weight", weights[f"model.layers.{layer}.{place}.weight"], heads)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def imported(model, tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("gguf")
    import_gguf.main(directory / "checkpoint", write(directory / "small.gguf", model), [], None, None)
    return directory / "checkpoint"


def test_the_model_is_the_files_up_to_its_quantisation(imported, model):
    from pipeline.engines.loading.model import load_model

    found = load_model(settings(imported, "Small (Q4_1)"))
    ids = torch.arange(20).reshape(2, 10)
    with torch.inference_mode():
        error = (found(ids).logits - model(ids).logits).abs().max()
        scale = model(ids).logits.abs().max()
    # Four bits: near, and not the same. Rows of queries in another order would be far off.
    assert 0 < error < 0.25 * scale
    exact = model.state_dict()["model.embed_tokens.weight"]
    assert torch.equal(found.get_input_embeddings().weight, exact)
    record = json.loads((imported / import_gguf.RECORD).read_text())
    assert record["quantisation"] == "Q4_1" and record["license"] == "apache-2.0" and len(record["sha256"]) == 64
    assert record["num_parameters"] == sum(weight.numel() for weight in dict(model.named_parameters()).values())
    assert not hasattr(found.config, "quantization_config")


def test_tables_must_name_the_quantisation(imported):
    assert import_gguf.named_quantisation(settings(imported, "Small (Q4_1)")) == "Q4_1"
    with pytest.raises(
        ModelError, match=r"'Small' is quantised \(Q4_1, see .*gguf.json\), and its display_name does not"
    ):
        import_gguf.named_quantisation(settings(imported, "Small"))
    assert import_gguf.named_quantisation(settings(imported.parent, "Small")) is None


def test_the_tokenizer_splits_digits_and_knows_its_special_tokens(imported):
    tokenizer = AutoTokenizer.from_pretrained(imported)
    assert (tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token) == (SPECIAL[1], SPECIAL[2], SPECIAL[2])
    # "12" is in the vocabulary, but digits are split before anything is merged.
    assert tokenizer.convert_ids_to_tokens(tokenizer("12 a")["input_ids"]) == ["1", "2", "Ġa"]
    request = tokenizer.apply_chat_template(
        [{"role": "user", "content": "é 7"}], tokenize=False, add_generation_prompt=True
    )
    assert request == "<|im_start|>user\né 7<|im_end|>\n<|im_start|>assistant\n"
    ids = tokenizer(request)["input_ids"]
    assert ids.count(1) == 2 and ids.count(2) == 1
    assert tokenizer.decode(ids) == request
    assert tokenizer.decode(ids, skip_special_tokens=True) == "user\né 7\nassistant\n"


def test_a_tokenizer_from_elsewhere_must_have_the_files_tokens(imported, model, tmp_path):
    path = write(tmp_path / "small.gguf", model, pre="qwen2")
    with pytest.raises(
        ModelError, match=r"splitting rule 'qwen2' \(known: gpt2 with smollm, gpt-2, no BOS token\): give --tokenizer"
    ):
        import_gguf.main(tmp_path / "checkpoint", path, [], None, None)
    import_gguf.main(tmp_path / "checkpoint", path, [], str(imported), None)
    other = tmp_path / "other"
    other.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (other / name).write_text(
            (imported / name).read_text().replace('"Ġa": 260', '"Ġa": 259').replace('"12": 259', '"12": 260')
        )
    with pytest.raises(ModelError, match=r"gives '12' the id 260, the file 259"):
        import_gguf.main(tmp_path / "second", path, [], str(other), None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("small.gguf", ["x==1"], None, None), "give one of --file and --package"),
        (("none.gguf", [], None, None), "none.gguf does not exist"),
        (("small.gguf", [], None, "0" * 64), "small.gguf has the SHA-256 "),
        (("other.gguf", [], None, None), "cannot read .*other.gguf: "),
    ],
)
def test_wrong_calls(model, tmp_path, arguments, message):
    write(tmp_path / "small.gguf", model)
    (tmp_path / "other.gguf").write_bytes(b"not a file of that kind")
    file, *others = arguments
    with pytest.raises((ConfigError, ModelError), match=message):
        import_gguf.main(tmp_path / "new", tmp_path / file, *others)
    assert not (tmp_path / "new").exists()
