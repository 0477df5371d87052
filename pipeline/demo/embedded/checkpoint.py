"""The state of an unfinished training of the embedded model: weights, optimisers, streams and log in one file."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import PreTrainedTokenizerFast

from pipeline.artifacts.atomic import atomic_path
from pipeline.demo.embedded.recipe import Recipe, recipe_json


@dataclass(frozen=True)
class Position:
    """How far the training is.

    Attributes:
        phase: Name of the phase under way.
        step: Its finished steps.
        tokens: Its tokens so far.
        seconds: Of this phase, over all runs.
        streams: State of each random stream, by name.
        log: Records of every phase so far that are kept.
    """

    phase: str
    step: int
    tokens: int
    seconds: float
    streams: Mapping[str, Any]
    log: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class TrainingState:
    """What a phase trains and what it trains with.

    Attributes:
        model: Float32.
        teacher: The frozen copy that answers sampling requests; None in the first phase.
        optimizers: Of the model.
    """

    model: torch.nn.Module
    teacher: torch.nn.Module | None
    optimizers: Sequence[torch.optim.Optimizer]


class Checkpoint:
    """One safetensors file. A file of another identity is ignored."""

    def __init__(self, path: Path, identity: str) -> None:
        self.path, self.identity = path, identity

    def save(self, position: Position, state: TrainingState) -> None:
        """Replace the file, atomically."""
        tensors = {f"model/{name}": value for name, value in state.model.named_parameters()}
        if state.teacher is not None:
            tensors |= {f"teacher/{name}": value for name, value in state.teacher.named_parameters()}
        for number, optimizer in enumerate(state.optimizers):
            for index, values in optimizer.state_dict()["state"].items():
                tensors |= {f"optimizer/{number}/{index}/{key}": value for key, value in values.items()}
        metadata = {"identity": self.identity, "position": json.dumps(asdict(position))}
        with atomic_path(self.path) as temporary:
            save_file({name: value.detach().cpu().contiguous() for name, value in tensors.items()}, temporary, metadata)

    def position(self) -> Position | None:
        """How far the run of this identity is; None if there is none."""
        if not self.path.exists():
            return None
        with safe_open(self.path, "pt") as file:
            metadata = file.metadata()
        if metadata["identity"] != self.identity:
            return None
        return Position(**json.loads(metadata["position"]))

    def restore(self, state: TrainingState) -> None:
        """Load weights and optimisers in place, for the phase that ``position`` names."""
        with safe_open(self.path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        with torch.no_grad():
            for part, model in (("model", state.model), ("teacher", state.teacher)):
                for name, value in [] if model is None else model.named_parameters():
                    value.copy_(tensors[f"{part}/{name}"])
        for number, optimizer in enumerate(state.optimizers):
            found: dict[int, dict[str, torch.Tensor]] = {}
            for name, value in tensors.items():
                if name.startswith(f"optimizer/{number}/"):
                    _, _, index, key = name.split("/")
                    found.setdefault(int(index), {})[key] = value
            optimizer.load_state_dict({"state": found, "param_groups": optimizer.state_dict()["param_groups"]})


def training_identity(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, autocast: torch.dtype | None) -> str:
    """SHA-256 of what decides the weights, but for the code and the processor."""
    parts = (recipe_json(recipe), tokenizer.backend_tokenizer.to_str(), str(autocast))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
