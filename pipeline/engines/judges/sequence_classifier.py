"""Loading of the evaluators, most of them sequence classifiers, and what pins their content."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.artifacts.storage import sha256_file
from pipeline.engines.loading.kept_models import opened_once
from pipeline.errors import ModelError, first_line
from pipeline.sources.repository import pinned_commit

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def pinned(checkpoint: str, revision: str | None) -> dict[str, Any]:
    """A checkpoint's content: {"files": SHA-256 by name} of a directory, {"repository", "revision"} on the hub.

    ``revision`` is a commit, branch or tag of a hub repository; None for its current commit. Raises ModelError.
    """
    directory = Path(checkpoint)
    if directory.is_dir():
        files = sorted(path for path in directory.iterdir() if path.is_file() and path.suffix != ".md")
        return {"files": {path.name: sha256_file(path) for path in files}}
    if checkpoint.startswith(("/", "./", "../", "models/")):
        raise ModelError(f"checkpoint directory {checkpoint} does not exist")
    return {"repository": checkpoint, "revision": pinned_commit(checkpoint, revision, "model")}


def load_sequence_classifier(checkpoint: str, revision: str | None, dtype: str, device: str | None, **options: Any):
    """A sequence classifier in evaluation mode. Raises what ``load_evaluator`` raises."""
    from transformers import AutoModelForSequenceClassification

    kind = AutoModelForSequenceClassification, "sequence classifier"
    source = (checkpoint, revision, dtype, device)
    return opened_once((*source, *options.items()), lambda: load_evaluator(*kind, *source, **options))


def load_evaluator(
    loader: Any,
    kind: str,
    checkpoint: str,
    revision: str | None,
    dtype: str,
    device: str | None,
    unused: str = "",
    **options: Any,
):
    """A model in evaluation mode, from safetensors where there are any; remote code is never run.

    A checkpoint with PyTorch weights only is read without unpickling objects (``weights_only``).

    ``kind`` says in errors what it is; weights whose names begin with ``unused`` may be missing.

    Raises:
        ModelError: It cannot be loaded, or weights are missing, which would leave them random.
    """
    import torch
    from transformers.utils.logging import disable_progress_bar

    from pipeline.engines.loading.model import default_device
    from pipeline.engines.loading.token_count import count_tokens

    # The stages have progress bars of their own.
    disable_progress_bar()
    # Else a repository without safetensors is sent to a converter on the hub in the background.
    os.environ.setdefault("DISABLE_SAFETENSORS_CONVERSION", "1")
    try:
        model, report = loader.from_pretrained(
            checkpoint,
            revision=revision,
            dtype=getattr(torch, dtype),
            trust_remote_code=False,
            weights_only=True,
            output_loading_info=True,
            **options,
        )
    except Exception as error:  # safetensors, transformers and torch each raise their own types
        raise ModelError(f"cannot load the {kind} {checkpoint}: {first_line(error)}") from None
    if missing := sorted(key for key in report["missing_keys"] if not unused or not key.startswith(unused)):
        raise ModelError(f"checkpoint {checkpoint} has no weights for {missing[0]} ({len(missing)} missing)")
    return count_tokens(model.to(device or default_device()).eval())


def load_evaluator_tokenizer(checkpoint: str, revision: str | None) -> "PreTrainedTokenizerBase":
    """A tokenizer; remote code is never run. Raises ModelError."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(checkpoint, revision=revision, trust_remote_code=False)
    except (OSError, ValueError, ImportError) as error:
        hint = ""
        if Path(checkpoint, "spm.model").exists() or "tiktoken" in str(error):
            hint = "; a tokenizer with a SentencePiece model only needs the packages sentencepiece and protobuf"
        raise ModelError(f"cannot load the tokenizer of {checkpoint}: {first_line(error)}{hint}") from None


def check_vocabulary(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", checkpoint: str) -> None:
    """Raise ModelError where the tokenizer has ids that the model has no embedding for."""
    rows = model.get_input_embeddings().weight.shape[0]
    if len(tokenizer) > rows:
        raise ModelError(f"the tokenizer of {checkpoint} has {len(tokenizer)} tokens, the model {rows}")
