"""Serve a trained condition of params.yaml, or any checkpoint, in OpenAI's protocol: ``python -m pipeline.serve``.

POST /v1/chat/completions and GET /v1/models, on this machine alone unless --host says otherwise. An
adapter is served under MODEL-CONDITION and its base checkpoint, beside it, under MODEL.
"""

import argparse
import socket
from pathlib import Path

from pipeline.command import CommandParser, run_command
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
    params: Path, model: str | None, condition: str | None, adapter: Path | None, host: str, port: int, batch_size: int
) -> None:
    """Serve until interrupted. Raises PipelineError."""
    weights = opening.find_weights(load_params(params), model, condition, adapter, str(params))
    with listening_socket(host, port) as listening:
        import uvicorn

        from pipeline.inference.server import ModelServer

        loaded = opening.open_weights(weights, "Generate exactly ONE random number.")
        served = {weights.model: False, weights.name: True}
        application = ModelServer(loaded, served, batch_size).application()
        config = uvicorn.Config(application, log_level="warning", timeout_graceful_shutdown=SECONDS_TO_END)
        address = f"[{host}]" if ":" in host else host
        print(f"{' and '.join(served)} at http://{address}:{listening.getsockname()[1]}/v1; Ctrl-C ends it", flush=True)
        uvicorn.Server(config).run(sockets=[listening])


def parse_arguments() -> argparse.Namespace:
    parser = CommandParser(prog="python -m pipeline.serve", description=__doc__)
    opening.add_options(parser)
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on; whoever reaches another than the default's may ask (default: %(default)s)",
    )
    parser.add_argument("--port", type=int, default=8001, help="0 for a free one (default: %(default)s)")
    batch = opening.number(int, 1, 10**6)
    parser.add_argument("--batch-size", type=batch, default=64, help="samples decoded together (default: %(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    run_command(main, parse_arguments(), kept=None)
