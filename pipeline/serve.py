"""Serve a trained condition of params.yaml, or any checkpoint, in OpenAI's protocol: ``python -m pipeline.serve``.

POST /v1/chat/completions and GET /v1/models, on this machine alone unless --host says otherwise. An
adapter is served under MODEL-CONDITION and its base checkpoint, beside it, under MODEL.
"""

import socket
from pathlib import Path

from pipeline.command import run_command
from pipeline.commands import parse_arguments
from pipeline.config.params import load_params
from pipeline.errors import ConfigError
from pipeline.inference import opening

SECONDS_TO_END = 2  # how long answers under way may take once the server is told to end


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that takes connections; port 0 takes a free one. Raises ConfigError."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise ConfigError(f"--host, --port: cannot listen on {host} port {port} ({error})") from None


def main(
    params: Path,
    model: str | None,
    condition: str | None,
    adapter: Path | None,
    host: str,
    port: int,
    batch_size: int,
    max_new_tokens: int | None,
) -> None:
    """Serve until interrupted. Raises PipelineError."""
    weights = opening.find_weights(load_params(params), model, condition, adapter, str(params))
    with listening_socket(host, port) as listening:
        import uvicorn

        from pipeline.inference.server import ModelServer

        loaded = opening.open_weights(weights, "Generate exactly ONE random number.")
        served = {weights.model: False, weights.name: True}
        application = ModelServer(loaded, served, batch_size, max_new_tokens).application()
        config = uvicorn.Config(application, log_level="warning", timeout_graceful_shutdown=SECONDS_TO_END)
        address = f"[{host}]" if ":" in host else host
        print(f"{' and '.join(served)} at http://{address}:{listening.getsockname()[1]}/v1; Ctrl-C ends it", flush=True)
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    run_command(main, parse_arguments("pipeline.serve"), kept=None)
