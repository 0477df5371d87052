"""A ``python -m`` that starts in milliseconds: a server with the heavy libraries loaded forks a child per command.

The DAG's stages are short on the tiny model, and importing torch and transformers takes longer than
their work. The child runs the module named on the command line, in the caller's directory,
environment and standard streams; nothing of the project is loaded beforehand.
"""

import contextlib
import json
import os
import runpy
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

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
    sys.argv[1:] = arguments
    sys.path[0] = directory
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def serve(address: str) -> None:
    """Load the libraries, then fork a child for every connection and answer with its exit status."""
    import datasets
    import hydra
    import lm_eval.tasks
    import matplotlib.pyplot
    import pandas
    import peft
    import plotly.offline
    import pydantic.dataclasses
    import scipy.stats
    import torch
    import transformers

    # Lazily loaded, and the larger part of what a stage waits for.
    loaded = (
        datasets,
        hydra,
        lm_eval.tasks,
        matplotlib.pyplot,
        pandas,
        peft.PeftModel,
        plotly.offline,
        pydantic.dataclasses,
        scipy.stats,
        torch,
        transformers.AutoTokenizer,
        transformers.AutoModelForCausalLM,
        transformers.Qwen3ForCausalLM,
    )
    server = socket.socket(socket.AF_UNIX)
    server.bind(address)
    server.listen()
    while loaded:
        connection, _ = server.accept()
        child = os.fork()
        if child == 0:
            status = 0
            try:
                _run(connection)
            except SystemExit as stopped:
                status = stopped.code if isinstance(stopped.code, int) else int(stopped.code is not None)
            except BaseException:
                import traceback

                traceback.print_exc()
                status = 1
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with contextlib.suppress(OSError):
            connection.sendall(bytes([code if code >= 0 else 1]))
        connection.close()


@contextlib.contextmanager
def preloaded_python(directory: Path, environment: dict[str, str]) -> Iterator[Path]:
    """Start the server and yield a directory to put first on the PATH, with ``python`` in it."""
    address, client = str(directory / "server"), directory / "bin" / "python"
    client.parent.mkdir(parents=True)
    client.write_text(CLIENT.format(python=sys.executable, address=address))
    client.chmod(0o755)
    server = subprocess.Popen([sys.executable, __file__, address], env=environment, cwd=directory)
    try:
        deadline = time.monotonic() + 120
        while not Path(address).exists() and server.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        yield client.parent
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    serve(sys.argv[1])
