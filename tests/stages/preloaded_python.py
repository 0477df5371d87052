"""A ``python -m`` that starts in milliseconds: a server with the heavy libraries loaded forks a child per command.

The DAG's stages are short on the tiny model, and importing torch and transformers takes longer than
their work. The child runs the module named on the command line, in the caller's directory,
environment and standard streams. The project's own modules are loaded beforehand, too, and its code parsed for the
stages' digests; a child whose directory holds another copy of the code forgets them.
"""

import contextlib
import functools
import importlib
import json
import os
import pkgutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import matplotlib
from matplotlib import pyplot

import pipeline
from pipeline.compose import compose_params
from pipeline.dag.code_digest import code_digests
from pipeline.record.provenance import package_versions
from tests.forked import ROOT, ForkedModule, fork, run_module

CLIENT = """\
#!{python} -S
import json, os, socket, sys
if sys.argv[1:2] != ["-m"]:
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
connection = socket.socket(socket.AF_UNIX)
connection.connect({address!r})
request = json.dumps([os.getcwd(), dict(os.environ), sys.argv[2:]]).encode()
socket.send_fds(connection, [len(request).to_bytes(8, "big")], [0, 1, 2])
connection.sendall(request)
sys.exit(int.from_bytes(connection.recv(1), "big"))
"""


def _run(connection: socket.socket) -> None:
    """In the child: become the process that the client asked for."""
    head, descriptors, _, _ = socket.recv_fds(connection, 8, 3)
    size, request = int.from_bytes(head, "big"), b""
    while len(request) < size:
        request += connection.recv(size - len(request))
    directory, environment, (module, *arguments) = json.loads(request)
    for target, descriptor in enumerate(descriptors):
        os.dup2(descriptor, target)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    run_module(module, arguments)


def _answer(connection: socket.socket, child: int) -> None:
    """Tell the client how the child has ended."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with connection, contextlib.suppress(OSError):
        connection.sendall(bytes([code if code >= 0 else 1]))


def draw_one(draw_all: Callable, drawings: dict[str, dict], directory: Path) -> dict[str, list[str]]:
    """``draw_all`` of a report's first figure alone, which takes most of the time off a report."""
    first = next(iter(drawings))
    one = {name: dict([*members.items()][:1]) if name == first else {} for name, members in drawings.items()}
    return draw_all(one, directory)


LAZY = ("AutoTokenizer", "AutoModelForCausalLM", "Qwen3ForCausalLM")


def preload() -> None:
    """Load the libraries and the project's modules, parse the code of every stage, look up versions; drawing once makes
    matplotlib's list of fonts.
    """
    for name in ("datasets", "hydra", "peft", "scipy.stats", "torch"):
        importlib.import_module(name)
    transformers = importlib.import_module("transformers")
    assert all(getattr(transformers, name) for name in LAZY)
    matplotlib.use("Agg")
    pyplot.figure()
    for found in pkgutil.walk_packages(pipeline.__path__, "pipeline."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    compose_params(ROOT / "conf", [])
    code_digests()
    package_versions()


def serve(address: str) -> None:
    """Load what stages take, then fork a child for every connection and answer with its exit status."""
    preload()
    from pipeline.report import write

    # All figures are drawn where a test calls the stage.
    write.draw_all = functools.partial(draw_one, write.draw_all)
    server = socket.socket(socket.AF_UNIX)
    server.bind(address)
    server.listen()
    while True:
        connection, _ = server.accept()
        child = fork(functools.partial(_run, connection))
        # Not here: what runs in a child may start another one.
        threading.Thread(target=_answer, args=(connection, child), daemon=True).start()


@contextlib.contextmanager
def preloaded_python(directory: Path, environment: dict[str, str]) -> Iterator[Path]:
    """Start the server and yield a directory to put first on the PATH, with ``python`` in it."""
    address, client = str(directory / "server"), directory / "bin" / "python"
    client.parent.mkdir(parents=True)
    client.write_text(CLIENT.format(python=sys.executable, address=address))
    client.chmod(0o755)
    # Forked from here, which has loaded the most of it.
    server = ForkedModule([__name__, address], ROOT, directory / "errors", **environment)
    try:
        deadline = time.monotonic() + 120
        while not Path(address).exists() and server.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        assert server.poll() is None, f"the server that stages are forked from has ended: {server.errors}"
        yield client.parent
    finally:
        server.send_signal(signal.SIGKILL)
        server.wait()


if __name__ == "__main__":
    serve(sys.argv[1])
