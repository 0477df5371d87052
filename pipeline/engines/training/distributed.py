"""The processes that train one adapter together; checkpoints and adapters are whole tensors.

Each holds the adapter and its optimiser, and takes a share of every step's passes; gradients are summed once per step.
The frozen base is whole in every process ("ddp") or has its decoder layers shared out ("fsdp").
"""

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from accelerate import PartialState
from torch import distributed
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard

from pipeline.engines.loading.model import causal_lm, default_device
from pipeline.errors import ConfigError, ModelError


@dataclass(frozen=True)
class ProcessGroup:
    """This process's place (``rank``; 0 writes files and log) among ``size``; with ``shards`` they share out the
    base's layers."""

    rank: int
    size: int
    device: torch.device
    shards: bool

    def sum(self, values: torch.Tensor) -> torch.Tensor:
        """The sum of ``values`` over the processes, the same bits in each; ``values`` holds it, too."""
        if self.size > 1:
            distributed.all_reduce(values)
        return values

    def sum_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Replace every gradient by its sum over the processes, in float32; one without passes has none to add."""
        if self.size == 1:
            return
        parameters = list(parameters)
        gradients = [torch.zeros_like(value) if value.grad is None else value.grad for value in parameters]
        flat = self.sum(torch.cat([gradient.flatten().float() for gradient in gradients]))
        for value, gradient in zip(parameters, flat.split([value.numel() for value in parameters]), strict=True):
            value.grad = gradient.view_as(value).to(value.dtype)

    def check_same_step(self, step: int) -> None:
        """Raise ConfigError where the processes have reached different steps: they see different checkpoints."""
        steps = [step] * self.size
        if self.size > 1:
            distributed.all_gather_object(steps, step)
        if len(set(steps)) > 1:
            raise ConfigError(
                f"the processes of this run found checkpoints of steps {sorted(set(steps))}; the checkpoint directory "
                "must be on a file system that all of them share"
            )

    def distribute(self, model: torch.nn.Module) -> torch.nn.Module:
        """The PeftModel of every process, with ``shards`` its decoder layers shared out, for which it is to be on the
        CPU. All but the layers stays whole. Raises ModelError where there are none to share out."""
        if self.shards:
            _share_layers(causal_lm(model), init_device_mesh(self.device.type, (self.size,)))
            model.to(self.device)
            # The buffers for whole layers are made at the first use, which must not be under inference_mode.
            with torch.no_grad():
                causal_lm(model)(input_ids=torch.zeros(1, 2, dtype=torch.int64, device=self.device))
        return model


def _share_layers(model: torch.nn.Module, mesh: DeviceMesh) -> None:
    """Keep this process's share of each decoder layer; nothing is sent, as every process has the whole."""
    layers = decoder_layers(model)
    adapter = {value for value in model.parameters() if value.requires_grad}
    # By their addresses: a layer's weights must not be kept alive here when its share has taken their place.
    in_layers = {id(value) for layer in layers for value in layer.parameters()}
    outside = {value for value in model.parameters() if id(value) not in in_layers}
    for layer in layers:
        fully_shard(layer, mesh=mesh, ignored_params=adapter)
    # A root without parameters of its own lets one layer's weights arrive while another computes.
    fully_shard(model.base_model, mesh=mesh, ignored_params=adapter | outside)


def single_process() -> ProcessGroup:
    """A group of this process alone."""
    return ProcessGroup(0, 1, torch.device(default_device()), shards=False)


@contextlib.contextmanager
def process_group(strategy: str, num_processes: int) -> Iterator[ProcessGroup]:
    """Join the ``num_processes`` started together. Raises ConfigError where they are not as many, or lack GPUs."""
    started = int(os.environ.get("WORLD_SIZE", 1))
    if started != num_processes:
        raise ConfigError(
            f"distributed.num_processes is {num_processes}, but this process was started as one of {started} "
            "(WORLD_SIZE); start as many, or unset WORLD_SIZE and RANK and let the stage's command start them"
        )
    if num_processes == 1:
        yield single_process()
        return
    if missing := [name for name in ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]:
        raise ConfigError(f"WORLD_SIZE is set, but not {', '.join(missing)}; torchrun sets all of them")
    has_gpu, local_rank = torch.cuda.is_available(), int(os.environ["LOCAL_RANK"])
    if has_gpu and local_rank >= torch.cuda.device_count():
        raise ConfigError(
            f"process {local_rank} of this machine has no GPU, of which there are {torch.cuda.device_count()}; "
            "lower distributed.num_processes"
        )
    # A handler written in Python would not run while this process waits for another one in a sum.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    state = PartialState(cpu=not has_gpu)
    yield ProcessGroup(state.process_index, num_processes, state.device, shards=strategy == "fsdp")
    # Only after success: a process that failed must not wait here for the others.
    state.destroy_process_group()


def decoder_layers(model: torch.nn.Module) -> list[torch.nn.Module]:
    """Members of the outermost lists of modules that all have LoRA weights. Raises ModelError where there are none."""
    layers: list[torch.nn.Module] = []
    inside: set[torch.nn.Module] = set()
    for module in model.modules():
        if not isinstance(module, torch.nn.ModuleList) or module in inside or not len(module):
            continue
        if all(any(value.requires_grad for value in member.parameters()) for member in module):
            layers.extend(module)
            inside.update(module.modules())
    if not layers:
        raise ModelError(
            f"distributed.strategy fsdp: {type(model).__name__} has no list of layers with LoRA weights; ddp is allowed"
        )
    return layers
