"""Loading checkpoints and tokenizers, and fresh adapters; local directories and hub models alike."""

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from tqdm import tqdm
from transformers import AutoTokenizer, PreTrainedTokenizerBase
from transformers.utils.logging import disable_progress_bar

from pipeline.artifacts.storage import sha256_file
from pipeline.config.models import ModelConfig
from pipeline.config.retention import is_local_path
from pipeline.engines.loading.chat import answer_terminator
from pipeline.errors import ModelError, first_line

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import Cache, PreTrainedModel

REQUIRED_FILES = ("config.json", "tokenizer.json")
WEIGHT_FILES = ("model.safetensors", "model.safetensors.index.json")
ROWS_PER_PASS = 32  # rows of ``next_log_probabilities`` that are run together
# The value of ``logits_to_keep``: an index, as the product of a slice with the head copies its weights for each row.
LAST = torch.tensor([-1])
_TOKENS_READ = [0]


def tokens_read() -> int:
    """Tokens that the models of this process have read: each forward pass looks them up in the input embeddings."""
    return _TOKENS_READ[0]


def count_tokens(model: Any) -> Any:
    """The model itself, whose tokens are counted from now on, padding included."""

    def count(module: torch.nn.Module, arguments: tuple[Any, ...]) -> None:
        if arguments:
            _TOKENS_READ[0] += arguments[0].numel()

    model.get_input_embeddings().register_forward_pre_hook(count)
    return model


def default_device() -> str:
    """ "cuda" where there is a GPU, else "cpu"."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def machine_dtype() -> Literal["bfloat16", "float32"]:
    """What ``dtype: auto`` is here: bfloat16 where the GPU or the processor computes it, else float32."""
    if torch.cuda.is_available():
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    # Linux lists a processor's instructions; others are not asked.
    processor = Path("/proc/cpuinfo")
    known = set(processor.read_text().split()) if processor.exists() else set()
    return "bfloat16" if known & {"avx512_bf16", "amx_bf16", "bf16"} else "float32"


def checkpoint_files(directory: Path) -> dict[str, str]:
    """SHA-256 of each file of a local checkpoint. Raises ModelError naming what is missing of it."""
    if not directory.is_dir():
        raise ModelError(f"checkpoint directory {directory} does not exist")
    weights = [name for name in WEIGHT_FILES if (directory / name).exists()]
    missing = [name for name in REQUIRED_FILES if not (directory / name).exists()]
    if not weights:
        missing.append(" or ".join(WEIGHT_FILES))
    elif weights[0] == WEIGHT_FILES[1]:
        index = json.loads((directory / weights[0]).read_text())
        missing += [name for name in sorted(set(index["weight_map"].values())) if not (directory / name).exists()]
    if missing:
        raise ModelError(f"checkpoint {directory} has no {missing[0]}")
    files = sorted(path for path in directory.iterdir() if path.is_file() and path.suffix != ".md")
    return {path.name: sha256_file(path) for path in files}


def load_tokenizer(config: ModelConfig, revision: str | None = None) -> PreTrainedTokenizerBase:
    """Load the tokenizer; remote code is never run. Raises ModelError."""
    checkpoint, revision = config.checkpoint, revision or config.revision
    if is_local_path(checkpoint):
        checkpoint_files(Path(checkpoint))
    try:
        return AutoTokenizer.from_pretrained(checkpoint, revision=revision, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot load the tokenizer of {checkpoint}: {first_line(error)}") from None


def _dequantization(checkpoint: str, revision: str | None) -> dict[str, Any]:
    """Options that turn MXFP4 weights into bfloat16, as adapters need. Raises ModelError for other quantisations."""
    from transformers import AutoConfig, Mxfp4Config

    try:
        config = AutoConfig.from_pretrained(checkpoint, revision=revision, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot load the model {checkpoint}: {first_line(error)}") from None
    quantization = getattr(config, "quantization_config", None)
    if quantization is None:
        return {}
    method = quantization["quant_method"] if isinstance(quantization, dict) else quantization.quant_method
    if str(getattr(method, "value", method)) != "mxfp4":
        raise ModelError(
            f"checkpoint {checkpoint} is quantised by {method!r}; only MXFP4 (GPT-OSS) can be turned into full "
            "weights, which adapters need: give an unquantised checkpoint"
        )
    return {"quantization_config": Mxfp4Config(dequantize=True)}


def load_pretrained(
    loader: Any, kind: str, checkpoint: str, revision: str | None, dtype: str, **options: Any
) -> "PreTrainedModel":
    """What one of transformers' classes loads, never running remote code; ``kind`` says in errors what it is. Raises
    ModelError, also where weights are missing."""
    # The stages have progress bars of their own.
    disable_progress_bar()
    try:
        model, report = loader.from_pretrained(
            checkpoint,
            revision=revision,
            dtype=getattr(torch, dtype),
            trust_remote_code=False,
            output_loading_info=True,
            **options,
        )
    except Exception as error:  # safetensors, transformers and torch each raise their own types
        raise ModelError(f"cannot load the {kind} {checkpoint}: {first_line(error)}") from None
    if missing := sorted(report["missing_keys"]):
        raise ModelError(f"checkpoint {checkpoint} has no weights for {missing[0]} ({len(missing)} missing)")
    return count_tokens(model)


def load_model(config: ModelConfig, revision: str | None = None, device: str | None = None) -> "PreTrainedModel":
    """Load a causal language model in evaluation mode from safetensors, in ``config.dtype``. Raises ModelError."""
    if config.dtype == "bfloat16" and machine_dtype() != "bfloat16":
        slow = (
            f"warning: {config.display_name}: this machine has no instructions for bfloat16, and emulates it: training "
            "steps can take over ten times as long as in float32. Set models.*.dtype=auto (or float32)"
        )
        tqdm.write(slow, file=sys.stderr)
    checkpoint, revision = config.checkpoint, revision or config.revision
    if is_local_path(checkpoint):
        checkpoint_files(Path(checkpoint))
    # The model classes take seconds to import, which stages with a tokenizer alone need not spend.
    from transformers import AutoModelForCausalLM

    options = _dequantization(checkpoint, revision)
    attention = {"attn_implementation": config.attention, "use_safetensors": True}
    model = load_pretrained(AutoModelForCausalLM, "model", checkpoint, revision, config.dtype, **attention, **options)
    if options and config.dtype == "float32":
        # Dequantised weights are bfloat16 whatever dtype was asked for.
        model = model.float()
    return model.to(device or default_device()).eval()


def causal_lm(model: torch.nn.Module) -> torch.nn.Module:
    """The causal language model inside a PeftModel (its adapter layers in place), or ``model`` itself."""
    # Asked this way round because importing PEFT takes seconds, which base models need not spend.
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def _outside_language_model(model: "PreTrainedModel", targets: Sequence[str]) -> str | None:
    """A pattern of the modules outside the language model (Gemma 3's vision tower); None where no target lies there."""
    decoder = model.get_decoder()
    prefix = next(name for name, module in model.named_modules() if module is decoder)
    for name, _ in model.named_modules():
        matches = any(name == target or name.endswith(f".{target}") for target in targets)
        if matches and not name.startswith(f"{prefix}."):
            return rf"(?!{re.escape(prefix)}\.).*"
    return None


def add_lora(
    model: "PreTrainedModel",
    config: ModelConfig,
    *,
    rank: int,
    alpha: float,
    dropout: float,
    dtype: Literal["float32", "bfloat16"] = "float32",
) -> "PeftModel":
    """Attach fresh LoRA weights, which compute in the frozen model's dtype, whatever theirs is. Raises ModelError."""
    from peft import LoraConfig, get_peft_model

    from pipeline.engines.loading.lora import LoraLinear

    lora = LoraConfig(
        r=rank,
        lora_alpha=alpha,
        lora_dropout=dropout,
        bias="none",
        task_type="CAUSAL_LM",
        target_modules=list(config.lora_target_modules),
        exclude_modules=_outside_language_model(model, config.lora_target_modules),
    )
    lora._register_custom_module({torch.nn.Linear: LoraLinear})
    try:
        adapted = get_peft_model(model, lora)
    except ValueError as error:
        raise ModelError(f"{config.checkpoint}: lora_target_modules: {first_line(error)}") from None
    # PEFT makes float32 weights of any base; both kinds start from the same draw.
    for parameter in adapted.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.to(getattr(torch, dtype))
    return adapted


@torch.inference_mode()
def next_log_probabilities(model: torch.nn.Module, rows: Sequence[Sequence[int]]) -> torch.Tensor:
    """Log-probabilities of the token behind each of R rows of one length, float64[R, V] on the CPU, in nats."""
    ids = torch.tensor([list(row) for row in rows], device=next(model.parameters()).device)
    parts = [model(input_ids=part, logits_to_keep=LAST).logits[:, -1].double() for part in ids.split(ROWS_PER_PASS)]
    return torch.cat([part.log_softmax(dim=-1).cpu() for part in parts])


def stop_ids(model: torch.nn.Module, tokenizer: PreTrainedTokenizerBase, terminator: str) -> set[int]:
    """Tokens that end a generation: the answer terminator and whatever the checkpoint calls EOS."""
    declared = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    declared = [declared] if isinstance(declared, int) else declared or []
    stops = {answer_terminator(tokenizer, terminator), *declared, tokenizer.eos_token_id}
    return stops - {None}


@dataclass(frozen=True)
class PositionLogits:
    """Logits at chosen positions only: hidden states are gathered before the output head.

    ``gathers_hidden`` is False for an architecture whose head does more than one linear map; then all logits are
    computed, ``states`` gathers those, and ``head`` passes them on.
    """

    model: torch.nn.Module
    gathers_hidden: bool

    @property
    def vocabulary(self) -> int:
        """Logits per position, V."""
        return self.model.config.get_text_config().vocab_size

    @property
    def device(self) -> torch.device:
        """Where the inputs go."""
        return self.model.get_input_embeddings().weight.device

    def forward(self, inputs: dict[str, Any], last_only: bool = False) -> tuple[torch.Tensor, "Cache | None"]:
        """What ``head`` maps to logits, float[B, T, ...], of what the model's forward takes, and the cache behind it.

        T = 1 for ``last_only``, the last position.
        """
        if self.gathers_hidden:
            output = self.model.base_model(**inputs)
            states = output.last_hidden_state[:, -1:] if last_only else output.last_hidden_state
        else:
            output = self.model(**inputs, **({"logits_to_keep": LAST} if last_only else {}))
            states = output.logits
        return states, getattr(output, "past_key_values", None)

    def states(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | dict[str, torch.Tensor],
        rows: torch.Tensor,
        columns: torch.Tensor,
        position_ids: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """What ``head`` maps to logits, float[P, ...], at (rows[p], columns[p]) of int64[B, T] inputs.

        ``attention_mask`` is int64[B, T], 1 on tokens, or what ``tree_attention_mask`` returns, with ``position_ids``.
        """
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask, "use_cache": False}
        if position_ids is not None:
            inputs["position_ids"] = position_ids
        return self.forward(inputs)[0][rows, columns]

    def head(self, states: torch.Tensor) -> torch.Tensor:
        """float[P, V] logits of what ``states`` returned."""
        return self.model.get_output_embeddings()(states) if self.gathers_hidden else states


def position_logits(model: torch.nn.Module) -> PositionLogits:
    """Choose the cheap path if it gives the same logits as the full forward pass on a probe; of a PeftModel, too."""
    inner = causal_lm(model)
    full, gathered = PositionLogits(inner, False), PositionLogits(inner, True)
    if getattr(inner.config.get_text_config(), "final_logit_softcapping", None):
        # A soft cap is all but linear on the small logits of the probe.
        return full
    probe = (torch.arange(6, device=full.device) % full.vocabulary).reshape(2, 3)
    places = (probe, torch.ones_like(probe), *torch.tensor([[0, 1], [2, 1]], device=full.device))
    was_training = inner.training
    inner.eval()
    with torch.inference_mode():
        expected = full.states(*places).float()
        try:
            found = gathered.head(gathered.states(*places)).float()
            same = found.shape == expected.shape and torch.allclose(found, expected, rtol=1e-2, atol=1e-2)
        except (AttributeError, TypeError):
            same = False
    inner.train(was_training)
    return gathered if same else full
