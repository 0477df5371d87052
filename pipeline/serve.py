"""Serve a trained condition of params.yaml, or any checkpoint, in OpenAI's protocol: ``python -m pipeline.serve``.

POST /v1/chat/completions and /v1/completions, GET /v1/models, on this machine alone unless --host says otherwise. An
adapter is served under MODEL-CONDITION and its base checkpoint, beside it, under MODEL.
"""

import argparse
import socket
import sys
from pathlib import Path

from pipeline.command import run_command
from pipeline.config.params import load_params
from pipeline.errors import ConfigError
from pipeline.inference import opening

LOOPBACK = ("127.0.0.1", "::1", "localhost")
SECONDS_TO_END = 2
"""How long a step of the model under way may take once the server is told to end."""


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
    api_key: str | None,
    batch_size: int,
) -> None:
    """Serve until interrupted.

    Raises:
        ConfigError: The address cannot be listened on; and see ``opening.find_weights``.
        PipelineError: See ``opening``.
    """
    if batch_size < 1:
        raise ConfigError(f"--batch-size: {batch_size} is not 1 or more")
    if api_key == "":
        raise ConfigError("--api-key: the key is empty")
    weights = opening.find_weights(load_params(params), model, condition, adapter, str(params))
    with listening_socket(host, port) as listening:
        import uvicorn

        from pipeline.inference.server import ModelServer

        loaded = opening.open_weights(weights, "Generate exactly ONE random number.")
        served = {weights.model: False, weights.name: True}
        endpoints = ModelServer(loaded, served, batch_size, api_key)
        options = {"log_level": "warning", "timeout_graceful_shutdown": SECONDS_TO_END}
        server = uvicorn.Server(uvicorn.Config(endpoints.application(), **options))
        endpoints.is_ending = lambda: server.should_exit
        if host not in LOOPBACK and api_key is None:
            print("note: whoever reaches this machine may ask; --api-key KEY asks for a key", file=sys.stderr)
        address = f"[{host}]" if ":" in host else host
        print(f"{' and '.join(served)} at http://{address}:{listening.getsockname()[1]}/v1; Ctrl-C ends it", flush=True)
        server.run(sockets=[listening])


def parse_arguments() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m pipeline.serve", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    opening.add_options(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8001, help="0 for a free one (default: %(default)s)")
    parser.add_argument("--api-key", metavar="KEY", help="what clients must send (default: none is asked for)")
    parser.add_argument("--batch-size", type=int, default=64, help="samples decoded together (default: %(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    run_command(main, parse_arguments(), kept=None)
