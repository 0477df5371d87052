"""SmolLM2-135M-Instruct from a 4-bit GGUF file, in float32, as llama.cpp and as transformers load it.

``python -m tests.real.smollm2 GGUF DIRECTORY`` writes ``model.gguf`` and a checkpoint. The numbers are those
of the 4 bits in both, so that the two have one law up to float32's rounding: with 4-bit weights llama.cpp rounds
activations, too.
"""

import sys
from pathlib import Path


def write_float32_gguf(source: Path, target: Path) -> None:
    """Copy a GGUF file with all tensors as float32."""
    from gguf import GGUFReader, GGUFValueType, GGUFWriter, LlamaFileType, dequantize

    reader = GGUFReader(source)
    writer = GGUFWriter(target, reader.fields["general.architecture"].contents())
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        value, kind = field.contents(), field.types[0]
        if field.name == "general.file_type":
            value = LlamaFileType.ALL_F32
        writer.add_key_value(field.name, value, kind, field.types[1] if kind == GGUFValueType.ARRAY else None)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, dequantize(tensor.data, tensor.tensor_type))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_checkpoint(source: Path, directory: Path) -> None:
    """Write the same weights and tokenizer as a transformers checkpoint in float32."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    place = {"pretrained_model_name_or_path": source.parent, "gguf_file": source.name}
    loaded = AutoModelForCausalLM.from_pretrained(**place, dtype=torch.float32)
    # What was read from GGUF counts as quantised, and such a model refuses to be saved.
    del loaded.config.quantization_config
    model = AutoModelForCausalLM.from_config(loaded.config, dtype=torch.float32)
    model.load_state_dict(loaded.state_dict())
    model.save_pretrained(directory)
    tokenizer = AutoTokenizer.from_pretrained(**place)
    # transformers reads the token that opens a turn as the one that ends it.
    tokenizer.eos_token = tokenizer.convert_ids_to_tokens(model.config.eos_token_id)
    tokenizer.save_pretrained(directory)


if __name__ == "__main__":
    gguf, directory = map(Path, sys.argv[1:])
    directory.mkdir(parents=True, exist_ok=True)
    write_checkpoint(gguf, directory)
    write_float32_gguf(gguf, directory / "model.gguf")
