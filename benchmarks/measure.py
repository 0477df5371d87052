"""Time and memory of a function in a process of its own."""

import contextlib
import gc
import importlib
import multiprocessing
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch


@dataclass
class ModelCost:
    """Tokens that a model ran, and its forward passes."""

    positions: int = 0
    forward_passes: int = 0


@contextlib.contextmanager
def counted(model: torch.nn.Module) -> Iterator[ModelCost]:
    """What the model runs while the context is open."""
    cost = ModelCost()

    def count(module: torch.nn.Module, arguments: tuple[torch.Tensor, ...]) -> None:
        cost.positions += arguments[0].numel()
        cost.forward_passes += 1

    handle = model.get_input_embeddings().register_forward_pre_hook(count)
    try:
        yield cost
    finally:
        handle.remove()


def peak_megabytes() -> float:
    """Largest resident set of this process so far, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _resident_megabytes() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def _child(connection, module: str, function: str, arguments: dict[str, Any]) -> None:
    loaded = importlib.import_module(module)
    target = getattr(loaded, function)
    # What is imported or cached at the first use belongs to neither implementation.
    getattr(loaded, "warm_up", lambda: None)()
    gc.collect()
    before = peak_megabytes()
    started, resident = time.perf_counter(), _resident_megabytes()
    result = target(**arguments)
    seconds = time.perf_counter() - started
    retained = _resident_megabytes() - resident
    figures = {"seconds": seconds, "peak_mb": peak_megabytes() - before, "retained_mb": retained}
    connection.send(figures | {key: value for key, value in (result or {}).items() if key != "keep"})


def in_subprocess(module: str, function: str, **arguments: Any) -> dict[str, Any]:
    """Run ``module.function(**arguments)`` in a fresh process (Linux).

    The module's ``warm_up``, if it has one, runs first. The function may return further figures; its "keep" entry
    keeps what it built alive while the retained memory is read, and is not returned.

    Raises RuntimeError where the process ended without a result (out of memory, an exception).
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(sender, module, function, arguments))
    process.start()
    sender.close()
    try:
        result = receiver.recv()
    except EOFError:
        raise RuntimeError(f"{module}.{function}({arguments}) ended without a result") from None
    finally:
        process.join()
    return result
