"""Time and memory of functions in processes of their own, alone or turn about, and the rows that come of it."""

import contextlib
import gc
import importlib
import multiprocessing
import os
import platform
import re
import resource
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest import mock

import torch

Figures = dict[str, Any]
Row = dict[str, Any]
Turn = Callable[[Figures], None]
"""Hands over the figures of a turn and waits for the next one."""
SECONDS_PER_CASE = 150
MATMUL_SIZE = 2048
OF_LAST_TURN = ("tokens", "peak_mb", "retained_mb", "threads", "note")


@dataclass(frozen=True)
class Case:
    """What is measured in one go, and whose rows are kept and replaced together."""

    benchmark: str
    case: str
    model: str = ""
    dtype: str = ""
    paths: str = ""


Measured = Iterator[tuple[Case, Callable[[int], list[Row]]]]
"""Cases in order, and functions that give their rows after so many repeats."""


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


def processor() -> str:
    """Its model name and whether it has AVX-512, on which speed and rounding depend and which one name does not tell in
    virtual machines; the machine's architecture where /proc/cpuinfo has no name."""
    path = Path("/proc/cpuinfo")
    text = path.read_text() if path.exists() else ""
    name = re.search(r"model name\s*: (.+)", text)
    return f"{name[1].strip()} {'with' if ' avx512f' in text else 'without'} avx512f" if name else platform.machine()


def peak_megabytes() -> float:
    """Largest resident set of this process so far, MB (Linux)."""
    # getrusage's starts at the parent's.
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def _resident_megabytes() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def _once(connection: Connection, module: str, function: str, arguments: Mapping[str, Any]) -> None:
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


def _by_turns(connection: Connection, module: str, function: str, arguments: Mapping[str, Any]) -> None:
    def turn(figures: Figures) -> None:
        connection.send(figures | {"peak_mb": peak_megabytes(), "threads": torch.get_num_threads()})
        connection.recv()

    with contextlib.suppress(EOFError, ConnectionError):
        getattr(importlib.import_module(module), function)(turn, **arguments)


@contextlib.contextmanager
def _process(target: Callable, environment: Mapping[str, str], *arguments: Any) -> Iterator[Connection]:
    """A fresh process with these environment variables and the connection to it, whose end ends it."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(theirs, *arguments))
    with mock.patch.dict(os.environ, environment):
        process.start()
    theirs.close()
    try:
        yield ours
    finally:
        ours.close()
        process.join()


def in_subprocess(module: str, function: str, **arguments: Any) -> Figures:
    """Run ``module.function(**arguments)`` in a fresh process (Linux).

    The module's ``warm_up``, if it has one, runs first. The function may return further figures; its "keep" entry
    keeps what it built alive while the retained memory is read, and is not returned.

    Raises RuntimeError where the process ended without a result (out of memory, an exception).
    """
    with _process(_once, {}, module, function, arguments) as connection:
        return _received(connection, f"{module}.{function}({arguments})")


def _received(connection: Connection, what: str) -> Figures:
    try:
        return connection.recv()
    except EOFError:
        raise RuntimeError(f"{what} ended without a result") from None


def in_turns(
    module: str, functions: Sequence[str], repeats: int, environment: Mapping[str, str] | None = None, **arguments: Any
) -> dict[str, list[Figures]]:
    """Figures of each function's turns, with peak_mb and threads of its process; they run one at a time.

    A function takes ``turn`` and ``arguments``; the first result that it hands over, by which it has loaded and is
    warm, does not count. After ``SECONDS_PER_CASE`` no further round begins. Raises RuntimeError where a process ended
    without a result.
    """
    with contextlib.ExitStack() as stack:
        connections = {}
        for name in functions:
            process = _process(_by_turns, environment or {}, module, name, arguments)
            connections[name] = stack.enter_context(process)
        for name, connection in connections.items():
            _received(connection, f"{module}.{name}({arguments})")
        found: dict[str, list[Figures]] = {name: [] for name in functions}
        started = time.monotonic()
        for done in range(repeats):
            if done and time.monotonic() - started > SECONDS_PER_CASE:
                break
            for name, connection in connections.items():
                connection.send(None)
                found[name].append(_received(connection, f"{module}.{name}({arguments})"))
        return found


def against_plain(module: str, repeats: int, **arguments: Any) -> dict[str, list[Figures]]:
    """Figures of the module's ``plain`` and ``ours``, and of the limit: the operations that are needed ("flops" of
    either) at the rate of a matrix product in the same round ("rate" of ``plain``)."""
    found = in_turns(module, ("plain", "ours"), repeats, **arguments)
    limit = []
    for plain, ours in zip(*found.values(), strict=True):
        flops, rate = (plain | ours)["flops"], plain["rate"]
        limit.append({"seconds": flops / rate, "note": f"{flops:.3g} operations at {rate:.3g} a second"})
    return found | {"limit": limit}


def matmul_rate(dtype: str) -> float:
    """Operations per second of square matrix products, the fastest of three."""
    a, b = torch.randn(2, MATMUL_SIZE, MATMUL_SIZE).to(getattr(torch, dtype))
    times = []
    for _ in range(3):
        started = time.perf_counter()
        torch.mm(a, b)
        times.append(time.perf_counter() - started)
    return 2 * MATMUL_SIZE**3 / min(times)


def summary(found: Mapping[str, Sequence[Figures]]) -> list[Row]:
    """A row for each implementation from the figures of its turns; ratios are to the median of the first."""
    rows: list[Row] = []
    for name, turns in found.items():
        seconds = [turn["seconds"] for turn in turns]
        median = statistics.median(seconds)
        row = {"implementation": name, "seconds": median, "min": min(seconds), "max": max(seconds)}
        row |= {"repeats": len(turns), "ratio": rows[0]["seconds"] / median if rows else 1.0}
        rows.append(row | {key: turns[-1].get(key, "") for key in OF_LAST_TURN})
    return rows
